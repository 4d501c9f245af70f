"""The lists of our packages name all of them."""

import tomllib
from pathlib import Path

from fedcore import COMPUTING, PACKAGES
from tests.imports import imported_by

ROOT = Path(__file__).parents[2]


def test_all_packages_that_are_installed_are_listed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert sorted(Path(place).name for place in wheel) == sorted(PACKAGES)


def test_a_cached_run_depends_on_all_that_computes_it() -> None:
    used = imported_by("fedstudies.runner, fedsim.api, fedflower.app", {*PACKAGES})
    assert used <= {*COMPUTING}
    assert used >= {"fedcore", "fedrun", "fedsim", "fedstudies", "fedview"}
