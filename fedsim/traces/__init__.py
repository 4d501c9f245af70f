"""Traces: tables of clients' activities, which are read, written and fitted."""

from fedsim.traces.format import ClientTrace as ClientTrace
from fedsim.traces.format import Segment as Segment
from fedsim.traces.read import read_trace as read_trace
from fedsim.traces.read import read_values as read_values
from fedsim.traces.write import write_trace as write_trace
