"""The results of a run, read from its journal: tables, a summary and models."""

from fedrun.results.evaluations import NOT_METRICS as NOT_METRICS
from fedrun.results.evaluations import SUPPORT as SUPPORT
from fedrun.results.results import FRAMES as FRAMES
from fedrun.results.results import Results as Results
from fedrun.results.tables import Table as Table
from fedrun.results.tables import is_number as is_number
