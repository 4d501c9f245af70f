"""Gaia's sites: they train on their own view of the model, W - e, in both engines."""

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from fedcore.compressors import ErrorFeedback, Gaia, TopK
from fedcore.coordinator.events import Decided
from fedcore.participant import start_of
from fedcore.recipes import Gaia as GaiaRecipe
from fedcore.recipes import Scaffold

pytest.importorskip("torch")

from tests.fedsim.test_stacked import simulated


def test_steps_begin_where_all_own_changes_count() -> None:
    public_D = np.array([4.0, 2.0], np.float32)
    memory_ND = np.array([[1.0, 0.0], [0.5, -2.0]], np.float32)
    own, plain = ErrorFeedback(own_view=True), ErrorFeedback()
    assert start_of(own, public_D, memory_ND).tolist() == [[3.0, 2.0], [3.5, 4.0]]
    assert start_of(plain, public_D, memory_ND) is public_D
    assert start_of(own, public_D, None) is public_D


def test_companions_have_no_own_view() -> None:
    with pytest.raises(ValidationError, match="own_view is for changes of the model"):
        Scaffold(uplink=ErrorFeedback(own_view=True))


def test_the_recipe_trains_on_the_own_view() -> None:
    recipe = GaiaRecipe()
    assert recipe.uplink == ErrorFeedback(inner=Gaia(), own_view=True)
    assert recipe.uplink.trains_on_own_view
    assert not TopK().trains_on_own_view


def test_both_engines_train_gaias_sites_alike(tmp_path: Path) -> None:
    """A change at the very threshold may pass in one of them: sizes differ a little."""
    settings = {
        "algorithm": {
            "kind": "gaia",
            "ahead": 1,
            "controllers": [{"kind": "gaia", "limit": 300, "step": 0.02}],
        },
        "simulate": {"dropout": 0.2, "speed": {"kind": "log_normal", "sigma": 1.0}},
        "stop": {"versions": 60},
    }
    exact, stacked = (
        simulated(tmp_path, kind, settings) for kind in ("exact", "stacked")
    )
    sizes = [
        np.array([record.nbytes for record in run.of(Decided)])
        for run in (exact, stacked)
    ]
    order = [[r.cid for r in run.of(Decided)] for run in (exact, stacked)]
    assert order[0] == order[1]
    assert np.abs(sizes[0] - sizes[1]).max() < 0.02 * sizes[0].max()
    last = [run.model("last") for run in (exact, stacked)]
    for name, values in last[0].items():
        assert values == pytest.approx(last[1][name], abs=1e-3)
