"""SCAFFOLD: Karimireddy et al., ICML 2020."""

import pytest

from fedcore import clients
from fedcore.clients import LocalSGD
from fedcore.recipes import Scaffold


def test_it_averages_updates_alike_in_rounds() -> None:
    config = Scaffold()
    assert config.synchronous
    assert config.weigh_by == "updates"
    assert config.client == clients.Scaffold()


def test_it_is_not_silently_federated_averaging() -> None:
    with pytest.raises(ValueError, match="needs client scaffold, not local_sgd"):
        Scaffold(client=LocalSGD(lr=0.1, steps=20))
