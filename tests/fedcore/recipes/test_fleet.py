"""FLeet: Damaskinos et al., Middleware 2020."""

from fedcore.clients import LocalSGD
from fedcore.controllers import IProf
from fedcore.recipes import Fleet
from fedcore.staleness import AdaSGD
from fedcore.update_filters import FleetController


def test_each_single_gradient_makes_a_new_model() -> None:
    config = Fleet()
    assert config.buffer == 1
    assert isinstance(config.client, LocalSGD)
    assert (config.client.steps, config.client.batch) == (1, 100)


def test_ada_sgd_weighs_and_the_controller_is_there_but_off() -> None:
    config = Fleet()
    assert config.staleness == AdaSGD()
    assert config.update_filter == FleetController(
        size_percentile=0, similarity_percentile=0
    )


def test_all_three_parts_of_the_paper_go_together() -> None:
    Fleet(
        controllers=(IProf(seconds=3),),
        update_filter=FleetController(size_percentile=10, similarity_percentile=10),
    )
