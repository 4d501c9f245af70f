"""Methods that a user's module defines work as those of the project do."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pytest

import latecomer
from fedcore.aggregators import Aggregator, AggregatorConfig, WeightedMean
from fedcore.clients import SGDConfig
from fedcore.config import Method, Roles
from fedcore.coordinator.events import Decided
from fedcore.errors import ConfigError
from fedcore.staleness import StalenessConfig, StalenessPolicy
from fedcore.staleness.base import memoryless
from tests.fedsim.toys import linear, settings


class Decaying(SGDConfig):
    """Local SGD whose weight decay and steps depend on the version."""

    kind: Literal["decaying"] = "decaying"

    def at(self, version: int) -> Self:
        changes = {"weight_decay": 0.5 * version, "steps": 2 + version % 2}
        return self.model_copy(update=changes)


class Even(AggregatorConfig):
    """The mean of updates that count alike."""

    kind: Literal["even"] = "even"

    def fits(self, roles: Roles) -> None:
        if roles.weigh_by == "samples":
            raise ValueError("aggregator: even needs weigh_by updates")

    def build(self) -> Aggregator:
        return WeightedMean().build()


class Rounds(StalenessConfig):
    """Dampens nothing, and is for rounds alone."""

    kind: Literal["rounds"] = "rounds"

    def fits(self, roles: Roles) -> None:
        if not roles.synchronous:
            raise ValueError("staleness: rounds needs synchronous: true")

    def build(self) -> StalenessPolicy:
        return memoryless(lambda staleness: 1.0)


OWN: tuple[type[Method], ...] = (Decaying, Even, Rounds)
for each in OWN:
    each.is_withdrawn = True  # other tests list all methods


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    for method in OWN:
        del method.is_withdrawn
    yield
    for method in OWN:
        method.is_withdrawn = True


def test_what_depends_on_the_version_is_the_same_in_stacks(tmp_path: Path) -> None:
    found = []
    for engine in ("exact", "stacked"):
        config = settings(
            algorithm={"buffer": 1, "client": {"kind": "decaying", "lr": 0.02}},
            stop={"versions": 24},
            simulate={
                "clients": 5,
                "speed": {"kind": "log_normal", "sigma": 1.0},
                "engine": {"kind": engine},
            },
        )
        run = latecomer.run(config, linear(), folder=tmp_path / engine)
        found.append(run.of(Decided))
    exact, stacked = found
    assert [(each.cid, each.steps) for each in exact] == [
        (each.cid, each.steps) for each in stacked
    ]
    for value in ("update_norm", "loss"):
        alone, together = ([getattr(r, value) for r in each] for each in found)
        np.testing.assert_allclose(together, alone, rtol=1e-4)


def refused(**algorithm: Any) -> str:
    """The sentence that answers these settings."""
    config = settings(algorithm=algorithm)
    with pytest.raises(ConfigError) as error:
        latecomer.run(config, linear())
    return str(error.value)


def test_every_role_is_asked_whether_it_fits() -> None:
    found = refused(aggregator={"kind": "even"}, weigh_by="samples")
    assert "aggregator: even needs weigh_by updates" in found
    found = refused(staleness={"kind": "rounds"})
    assert "staleness: rounds needs synchronous" in found


def test_a_method_inside_another_is_asked_as_well() -> None:
    found = refused(staleness={"kind": "label_boost", "inner": {"kind": "rounds"}})
    assert "staleness: rounds needs synchronous" in found
