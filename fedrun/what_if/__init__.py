"""What a run's model would have been with other settings, or without some clients."""

from fedrun.what_if.compare import compare as compare
from fedrun.what_if.counterfactual import Counterfactual as Counterfactual
from fedrun.what_if.evaluate import evaluate_both as evaluate_both
from fedrun.what_if.leave_one_out import LeaveOneOut as LeaveOneOut
from fedrun.what_if.leave_one_out import rank as rank
from fedrun.what_if.page import write_page as write_page
