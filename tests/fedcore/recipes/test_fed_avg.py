"""FedAvg: McMahan et al., AISTATS 2017."""

from fedcore.aggregators import WeightedMean
from fedcore.compressors import Identity
from fedcore.recipes import FedAvg
from fedcore.server_optimizers import SGD
from fedcore.staleness import Constant


def test_it_is_synchronous_and_weighs_by_samples() -> None:
    config = FedAvg()
    assert config.synchronous
    assert config.staleness_limit == 0
    assert config.weigh_by == "samples"
    assert config.deadline == 600


def test_models_are_averaged_as_they_are() -> None:
    config = FedAvg()
    assert (config.aggregator, config.server) == (WeightedMean(), SGD(lr=1))
    assert config.staleness == Constant()
    assert config.uplink == config.downlink == Identity()


def test_over_selection_makes_the_cohort_larger_than_the_buffer() -> None:
    assert FedAvg(buffer=10).cohort == 10
    assert FedAvg(buffer=10, over_selection=1.3).cohort == 13
    assert FedAvg(buffer=3, over_selection=1.1).cohort == 4
