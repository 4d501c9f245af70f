"""FedDyn: Acar et al., ICLR 2021."""

from fedcore.recipes import FedDyn


def test_it_is_in_rounds_with_both_halves() -> None:
    config = FedDyn()
    assert config.synchronous
    assert config.client.kind == config.server.kind == "fed_dyn"
    assert config.weigh_by == "updates"
