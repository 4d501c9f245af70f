"""The report of a run: one page for its operator, and tables for the terminal.

Plotly is imported only where a page is written, since the server imports this.
"""

from fedrun.report.partition import Shares as Shares
from fedrun.report.partition import partition_page as partition_page
from fedrun.report.partition import partition_table as partition_table
from fedrun.report.partition import shares_of as shares_of
from fedrun.report.summary import outcome as outcome
from fedrun.report.summary import summary_table as summary_table
from fedrun.report.write import write_report as write_report
