"""Replays a run with other settings, or without some of its clients."""

from fedview.what_if.compare import compare as compare
from fedview.what_if.counterfactual import Counterfactual as Counterfactual
from fedview.what_if.evaluate import evaluate_both as evaluate_both
from fedview.what_if.leave_one_out import LeaveOneOut as LeaveOneOut
from fedview.what_if.leave_one_out import rank as rank
from fedview.what_if.page import write_page as write_page
