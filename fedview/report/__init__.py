"""The report of a run: one page for its operator, and tables for the terminal.

Plotly is imported only where a page is written, since the server imports this.
"""

from fedview.report.partition import Shares as Shares
from fedview.report.partition import partition_page as partition_page
from fedview.report.partition import partition_table as partition_table
from fedview.report.partition import shares_of as shares_of
from fedview.report.summary import outcome as outcome
from fedview.report.summary import summary_table as summary_table
from fedview.report.write import write_report as write_report
