"""A controller of a user's own sets the work and the messages in every engine."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from fedcore.controllers import Assignment, Controller, ControllerConfig, Report
from fedcore.coordinator.events import Decided
from fedcore.typing import State

pytest.importorskip("torch")

from tests.fedsim.test_stacked import given, simulated, told


class Tiring(ControllerConfig):
    """A client that does less after each download and upload."""

    kind: Literal["tiring"] = "tiring"
    falls: float = 0.8
    """The share that is left after each."""

    def build(self) -> Controller:
        """Returns the controller."""
        return Controller(lambda: (0, 0), _count, self._assign)

    def _assign(self, state: State) -> Assignment:
        downloads, uploads = state
        return Assignment(self.falls**downloads, self.falls**uploads)


def _count(state: State, report: Report) -> State:
    downloads, uploads = state
    is_upload = report.upload_seconds is not None
    return downloads + (not is_upload), uploads + is_upload


SETTINGS: dict[str, Any] = {
    "algorithm": {
        "kind": "fed_buff",
        "buffer": 3,
        "client": {"kind": "local_sgd", "steps": 10},
        "uplink": {"kind": "error_feedback", "inner": {"kind": "top_k", "ratio": 0.3}},
        "controllers": [{"kind": "tiring"}],
    },
    "simulate": {
        "dropout": 0.2,
        "away_seconds": 2.0,
        "speed": {"kind": "log_normal", "sigma": 1.0},
        "link": {"down_mbit": 0.1},
        "availability": {"kind": "on_off", "there_seconds": 3.0, "gone_seconds": 3.0},
    },
}


def test_steps_and_sizes_fall_alike_in_both_engines(tmp_path: Path) -> None:
    exact = simulated(tmp_path, "exact", SETTINGS)
    stacked = simulated(tmp_path, "stacked", SETTINGS)
    assert told(stacked) == told(exact)
    assert given(stacked) == given(exact)
    for cid in {record.cid for record in exact.of(Decided)}:
        own = [record for record in exact.of(Decided) if record.cid == cid]
        assert own[0].steps <= 8  # a model has come, or several
        sizes = [record.nbytes for record in own]
        assert sizes == sorted(sizes, reverse=True)
        assert [r.steps for r in own] == sorted((r.steps for r in own), reverse=True)


@pytest.mark.parametrize("kind", ["flexible_participation", "fed_nova"])
@pytest.mark.parametrize("uplink", ["top_k", "identity"])
def test_work_that_changes_weighs_alike_in_both_engines(
    kind: str, uplink: str, tmp_path: Path
) -> None:
    algorithm = SETTINGS["algorithm"] | {
        "kind": kind,
        "synchronous": False,
        "staleness_limit": 4,
    }
    if uplink == "identity":
        algorithm["uplink"] = {"kind": "identity"}
    settings = SETTINGS | {"algorithm": algorithm}
    exact = simulated(tmp_path, "exact", settings)
    stacked = simulated(tmp_path, "stacked", settings)
    assert told(stacked) == told(exact)
    assert len({record.steps for record in exact.of(Decided)}) > 2
    one, other = ([r.update_norm for r in x.of(Decided)] for x in (exact, stacked))
    np.testing.assert_allclose(other, one, rtol=1e-4)
    for name, tensor in exact.model("last").items():
        np.testing.assert_allclose(stacked.model("last")[name], tensor, atol=1e-4)


def test_without_compression_work_falls_all_the_same(tmp_path: Path) -> None:
    algorithm = SETTINGS["algorithm"] | {"uplink": {"kind": "identity"}}
    settings = SETTINGS | {"algorithm": algorithm}
    exact = simulated(tmp_path, "exact", settings)
    assert told(simulated(tmp_path, "stacked", settings)) == told(exact)
    assert min(record.steps for record in exact.of(Decided)) < 8
