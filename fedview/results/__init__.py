"""The results of a run, read from its journal: tables, a summary and models."""

from fedview.results.evaluations import NOT_METRICS as NOT_METRICS
from fedview.results.evaluations import SUPPORT as SUPPORT
from fedview.results.results import FRAMES as FRAMES
from fedview.results.results import Results as Results
from fedview.results.tables import Table as Table
from fedview.results.tables import is_number as is_number
