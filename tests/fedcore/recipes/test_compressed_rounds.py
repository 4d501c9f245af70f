"""STC, FedPAQ and DoubleSqueeze: rounds whose messages are compressed."""

from fedcore import recipes
from fedcore.compressors import QSGD, STC, ErrorFeedback, Identity, SignL1
from fedcore.recipes import DoubleSqueeze, FedPAQ
from fedcore.selection import All


def test_stc_sends_one_in_four_hundred_values_of_single_steps() -> None:
    config = recipes.STC()
    assert config.uplink == ErrorFeedback(inner=STC(ratio=0.0025))
    assert config.downlink == STC(ratio=0.0025)
    assert config.client.step_count(1000) == 1


def test_fed_paq_quantises_updates_without_bias_or_memory() -> None:
    config = FedPAQ()
    assert config.uplink == QSGD(bits=4)
    assert config.uplink.bias == "unbiased"
    assert config.downlink == Identity()
    assert config.weigh_by == "updates"


def test_double_squeeze_sends_one_bit_a_value_in_both_directions() -> None:
    config = DoubleSqueeze()
    assert config.uplink == ErrorFeedback(inner=SignL1())
    assert config.downlink == SignL1()
    assert config.selection == All()
    assert config.client.step_count(1000) == 1
