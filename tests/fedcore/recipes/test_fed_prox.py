"""FedProx: Li et al., MLSys 2020."""

from fedcore import clients
from fedcore.recipes import FedAvg, FedProx


def test_without_the_pull_it_is_fed_avg() -> None:
    config = FedProx(client=clients.FedProx(mu=0))
    ours, fed_avg = config.model_dump(), FedAvg().model_dump()
    assert ours["client"].pop("mu") == 0
    for settings in (ours, fed_avg):
        del settings["kind"], settings["client"]["kind"]
    assert ours == fed_avg
