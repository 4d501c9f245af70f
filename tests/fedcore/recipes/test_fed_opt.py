"""FedAvgM, FedAdagrad, FedAdam and FedYogi: FedAvg with an optimiser at the server."""

import pytest

from fedcore.algorithm import AlgorithmConfig
from fedcore.recipes import FedAdagrad, FedAdam, FedAvg, FedAvgM, FedYogi
from fedcore.server_optimizers import SGD, Adagrad, Adam, Momentum, Yogi


@pytest.mark.parametrize("recipe", [FedAvgM, FedAdagrad, FedAdam, FedYogi])
def test_all_but_the_server_is_that_of_fed_avg(recipe: type[AlgorithmConfig]) -> None:
    ours = recipe.example().model_dump(exclude={"kind", "server"})
    assert ours == FedAvg().model_dump(exclude={"kind", "server"})
    assert recipe.example().model_dump()["server"] != SGD().model_dump()


def test_settings_are_those_of_the_papers() -> None:
    assert FedAvgM().server == Momentum(beta=0.9, lr=1.0)
    # Reddi et al., Section 5: beta_1 = 0 for Adagrad; .9 and .99 for Adam and Yogi.
    assert FedAdagrad().server == Adagrad(beta_1=0.0, tau=1e-3)
    assert FedAdam().server == Adam(beta_1=0.9, beta_2=0.99, tau=1e-3)
    assert FedYogi().server == Yogi(beta_1=0.9, beta_2=0.99, tau=1e-3)
