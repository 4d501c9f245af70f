"""Whatever is combined either runs, alike in both engines, or is refused in a sentence.

Two or three roles of a recipe are drawn from everything that is registered, and so is
its pace; the others are as they are by default.
"""

import math
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import latecomer
from fedcore.aggregators import AggregatorConfig
from fedcore.clients import ClientAlgorithmConfig, FedProx, LocalSGD
from fedcore.compressors import CompressorConfig
from fedcore.controllers import ControllerConfig
from fedcore.coordinator.events import Decided
from fedcore.errors import ConfigError
from fedcore.lr_schedules import Linear
from fedcore.selection import SelectionConfig
from fedcore.server_optimizers import ServerOptimizerConfig
from fedcore.staleness import StalenessConfig
from fedcore.update_filters import UpdateFilterConfig
from fedview.results import Results
from tests.fedsim.toys import linear
from tests.laws.compressors import EVERY as COMPRESSORS
from tests.laws.registered import variants

pytest.importorskip("torch")

ROLES: dict[str, list[Any]] = {
    "staleness": variants(StalenessConfig),
    "aggregator": variants(AggregatorConfig),
    "server": variants(ServerOptimizerConfig),
    "client": variants(
        ClientAlgorithmConfig,
        LocalSGD(steps=3, momentum=0.9, keep_momentum=True, schedule=Linear(until=2)),
        FedProx(mu=0.1, epochs=2, batch=3, weight_decay=0.01),
    ),
    "uplink": COMPRESSORS,
    "downlink": variants(CompressorConfig),
    "selection": variants(SelectionConfig),
    "update_filter": variants(UpdateFilterConfig),
    "controllers": variants(ControllerConfig),
}
PACES: dict[str, list[dict[str, Any]]] = {
    "fed_buff": [
        {},
        {"weigh_by": "samples", "samples_cap": 5},
        {"staleness_limit": 1},
        {"concurrency": 2, "deadline": 0.5},
    ],
    "fed_avg": [{}, {"weigh_by": "updates"}, {"over_selection": 1.5, "deadline": 1.0}],
}
VERSIONS = 3
WORKLOAD = linear()

paces = st.sampled_from(
    [{"kind": kind, **pace} for kind, several in PACES.items() for pace in several]
)
some_roles = st.lists(
    st.sampled_from(sorted(ROLES)), min_size=2, max_size=3, unique=True
)
parts = some_roles.flatmap(
    lambda roles: st.fixed_dictionaries(
        {role: st.sampled_from(ROLES[role]) for role in roles}
    )
)
compositions = st.builds(lambda pace, parts: {**pace, **parts}, paces, parts)


def as_settings(composition: dict[str, Any]) -> dict[str, Any]:
    """The section ``algorithm``, as a config file would have it."""
    found: dict[str, Any] = {"buffer": 2}
    for name, value in composition.items():
        plain = value.model_dump(mode="json") if name in ROLES else value
        found[name] = [plain] if name == "controllers" else plain
    return found


def simulated(algorithm: dict[str, Any], engine: str, folder: Path) -> Results:
    config = {
        "algorithm": algorithm,
        "evaluate": {"every_versions": VERSIONS},
        "stop": {"versions": VERSIONS, "seconds": 1e6},
        "simulate": {
            "clients": 4,
            "speed": {"kind": "log_normal", "sigma": 1.0},
            "dropout": 0.1,
            "engine": {"kind": engine},
        },
    }
    return latecomer.run(config, WORKLOAD, folder=folder / engine)


@pytest.mark.slow
@settings(max_examples=40)
@given(compositions)
def test_what_is_composed_runs_alike_in_both_engines_or_is_refused(
    composition: dict[str, Any],
) -> None:
    algorithm = as_settings(composition)
    folder = Path(tempfile.mkdtemp())
    try:
        exact = simulated(algorithm, "exact", folder)
    except ConfigError as refusal:
        assert_names_a_field(str(refusal))
        with pytest.raises(ConfigError):
            simulated(algorithm, "stacked", folder)
        return
    else:
        stacked = simulated(algorithm, "stacked", folder)
        assert_equal(exact, stacked)
    finally:
        shutil.rmtree(folder)


def assert_names_a_field(refusal: str) -> None:
    """The sentence says which role does not fit, and why."""
    assert refusal.startswith(("config: algorithm: ", "algorithm.")), refusal
    assert any(f"{role}: " in refusal for role in ROLES), refusal
    assert "Traceback" not in refusal


def _told(record: Decided) -> tuple[Any, ...]:
    return record.cid, record.base, record.steps, record.verdict


def assert_equal(exact: Results, stacked: Results) -> None:
    """Equal up to the order in which sums are rounded."""
    alone, together = exact.of(Decided), stacked.of(Decided)
    assert [*map(_told, alone)] == [*map(_told, together)]
    assert exact.summary["versions"] == stacked.summary["versions"] == VERSIONS
    one, other = exact.model("last"), stacked.model("last")
    assert set(one) == set(other)
    for name, values in one.items():
        assert np.isfinite(values).all()
        np.testing.assert_allclose(other[name], values, rtol=1e-3, atol=1e-4)
    losses = [run.central["loss"][-1] for run in (exact, stacked)]
    assert math.isclose(losses[0], losses[1], rel_tol=1e-3)
