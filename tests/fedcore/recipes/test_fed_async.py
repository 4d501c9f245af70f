"""FedAsync: Xie et al., OPT 2020."""

from fedcore.aggregators import Mixing
from fedcore.clients import FedProx
from fedcore.recipes import FedAsync
from fedcore.staleness import Hinge, Polynomial


def test_every_single_update_is_mixed_in() -> None:
    config = FedAsync()
    assert config.buffer == 1
    assert config.aggregator == Mixing(alpha=0.6)
    assert config.staleness == Polynomial(exponent=0.5)
    assert config.client == FedProx(mu=0.005)


def test_as_many_models_are_kept_as_an_update_may_be_late() -> None:
    assert FedAsync().staleness_limit == 16


def test_the_hinge_of_the_paper_can_be_chosen() -> None:
    settings = {"staleness": {"kind": "hinge", "slope": 10, "bound": 4}}
    assert FedAsync.model_validate(settings).staleness == Hinge()
