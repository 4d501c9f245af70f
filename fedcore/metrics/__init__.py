"""Metrics that see one batch after the other and keep only sums.

They are for test sets whose outputs do not fit into memory; for other sets any function
of all outputs and targets will do. An object serves one evaluation at a time.
"""

from fedcore.metrics.auc import AUC as AUC
from fedcore.metrics.confusion import F1 as F1
from fedcore.metrics.confusion import Accuracy as Accuracy
from fedcore.metrics.confusion import Precision as Precision
from fedcore.metrics.confusion import Recall as Recall
from fedcore.metrics.confusion import RecallByClass as RecallByClass
from fedcore.metrics.mean import Mean as Mean
