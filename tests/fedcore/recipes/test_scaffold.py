"""SCAFFOLD: Karimireddy et al., ICML 2020."""

from fedcore import clients
from fedcore.recipes import Scaffold


def test_it_averages_updates_alike_in_rounds() -> None:
    config = Scaffold()
    assert config.synchronous
    assert config.weigh_by == "updates"
    assert config.client == clients.Scaffold()
