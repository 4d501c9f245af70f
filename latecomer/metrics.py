"""Metrics that read a test set batch by batch, for sets that do not fit into memory."""

from fedcore.metrics import AUC as AUC
from fedcore.metrics import F1 as F1
from fedcore.metrics import Accuracy as Accuracy
from fedcore.metrics import Mean as Mean
from fedcore.metrics import Precision as Precision
from fedcore.metrics import Recall as Recall
from fedcore.metrics import RecallByClass as RecallByClass
