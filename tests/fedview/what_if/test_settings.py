"""What if: the same updates under other settings."""

from pathlib import Path

import pytest

from fedcore.errors import ConfigError
from fedview.what_if import compare
from tests.fedrun.journal.runs import Written, written


@pytest.fixture
def run(tmp_path: Path) -> Written:
    """Four updates, each of which made a version."""
    return written(tmp_path, updates=4)


def version(run: Written, *changes: str) -> str:
    """How far the run would have come."""
    return compare(run.folder, changes).sentences[1]


def test_another_recipe_begins_with_its_own_defaults(run: Written) -> None:
    said = version(run, "algorithm.kind=fed_avg")  # whose buffer is 10
    assert said == (
        "replayed: version 0, 0 updates in the model and 4 in the buffer, which the "
        "comparison adds as version 1"
    )


def test_what_is_asked_besides_another_recipe_is_kept_in_any_order(
    run: Written,
) -> None:
    said = version(run, "algorithm.buffer=2", "algorithm.kind=fed_avg")
    assert said == "replayed: version 2, 4 updates in the model"


def test_the_recipe_that_it_was_keeps_its_settings(run: Written) -> None:
    said = version(run, "algorithm.kind=fed_buff")
    assert said == "replayed: version 4, 4 updates in the model"


def test_updates_without_control_variates_are_not_replayed_with_them(
    run: Written,
) -> None:
    with pytest.raises(ConfigError, match="a run of local_sgd cannot be replayed with"):
        version(run, "algorithm.kind=scaffold")


@pytest.mark.parametrize("kind", ["fed_nova", "flexible_participation"])
def test_updates_are_not_replayed_by_an_aggregator_that_multiplies_them(
    run: Written, kind: str
) -> None:
    with pytest.raises(ConfigError, match=f"cannot be replayed with {kind}: clients"):
        version(run, f"algorithm.aggregator.kind={kind}")
