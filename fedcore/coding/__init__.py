"""Coded computation: redundant work inside one silo that survives stragglers.

The codes replicate a silo's own data among its own workers. None of it applies across
clients, whose data never leave them.
"""

from fedcore.coding.coded_shuffling import CodedShuffle as CodedShuffle
from fedcore.coding.coded_shuffling import mean_rates as mean_rates
from fedcore.coding.coded_shuffling import saving as saving
from fedcore.coding.coded_shuffling import shuffle_coded as shuffle_coded
from fedcore.coding.gradient_coding import GradientCode as GradientCode
from fedcore.coding.gradient_coding import check_silo as check_silo
from fedcore.coding.gradient_coding import cyclic as cyclic
from fedcore.coding.gradient_coding import (
    fractional_repetition as fractional_repetition,
)
from fedcore.coding.gradient_coding import gradient_code as gradient_code
from fedcore.coding.gradient_coding import sum_ready as sum_ready
from fedcore.coding.gradient_coding import usual_kind as usual_kind
from fedcore.coding.latency import best_split as best_split
from fedcore.coding.latency import coded_gradient_seconds as coded_gradient_seconds
from fedcore.coding.latency import kth_fastest as kth_fastest
from fedcore.coding.latency import mds_seconds as mds_seconds
from fedcore.coding.latency import replicated_seconds as replicated_seconds
from fedcore.coding.latency import uncoded_seconds as uncoded_seconds
from fedcore.coding.latency import worker_seconds as worker_seconds
from fedcore.coding.mds import MDSCode as MDSCode
from fedcore.coding.mds import mds_code as mds_code
