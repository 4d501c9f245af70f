"""The laws, for a user's own methods, as ``python -m latecomer.laws`` runs them."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "own_methods" / "my_methods.py"
WRONG = '''
from typing import Literal

from fedcore.staleness.base import StalenessConfig, StalenessPolicy, memoryless


class Rising(StalenessConfig):
    """Counts late updates for more, which no policy may do."""

    kind: Literal["rising"] = "rising"

    def build(self) -> StalenessPolicy:
        """Returns the policy."""
        return memoryless(lambda staleness: 1.0 - 0.5 / (1 + staleness))
'''


def laws(file: Path, *paths: Path) -> "subprocess.CompletedProcess[str]":
    """What the command says, with these folders in front of others."""
    known = [str(path) for path in (*paths, ROOT, ROOT / "protos")]
    return subprocess.run(
        [sys.executable, "-m", "latecomer.laws", str(file)],
        cwd=file.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(known)},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )


@pytest.mark.processes
def test_the_example_keeps_the_laws_of_its_roles_and_only_it_is_examined() -> None:
    done = laws(EXAMPLE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.processes
def test_a_method_that_breaks_a_law_is_found(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(WRONG)
    done = laws(file)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED" in done.stdout
    assert "test_a_later_update_never_counts_more[rising]" in done.stdout
    assert "[polynomial" not in done.stdout


@pytest.mark.processes
def test_the_installed_package_has_all_that_the_laws_need(tmp_path: Path) -> None:
    """The wheel's folder is laid out as pyproject.toml says, away from the sources."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = settings["tool"]["hatch"]["build"]["targets"]["wheel"]
    for package in wheel["packages"]:
        (tmp_path / Path(package).name).symlink_to(ROOT / package)
    (tmp_path / "latecomer").unlink()
    shutil.copytree(ROOT / "latecomer", tmp_path / "latecomer")
    for source, target in wheel["force-include"].items():
        into = tmp_path / target
        into.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
        copy(ROOT / source, into)
    every_role = tmp_path / "every_role.py"
    every_role.write_text(EVERY_ROLE)
    # Where the project is installed to be edited, its sources are on the path as well.
    away = (
        "import runpy, sys\n"
        f"sys.path[:] = [path for path in sys.path if path not in {editable()!r}]\n"
        "runpy.run_module('latecomer.laws', run_name='__main__')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", away, str(every_role)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def editable() -> list[str]:
    """The folders that hold ``tests`` beside the installed packages."""
    return [path for path in sys.path if (Path(path) / "tests" / "laws").is_dir()]


PARENTS = {
    "a": "fedcore.aggregators.WeightedMean",
    "b": "fedcore.clients.LocalSGD",
    "c": "fedcore.compressors.TopK",
    "e": "fedcore.recipes.FedBuff",
    "f": "fedcore.selection.UniformSelection",
    "g": "fedcore.server_optimizers.SGD",
    "h": "fedcore.update_filters.FleetController",
}
EVERY_ROLE = "from typing import Literal\n" + "".join(
    f"""
from {parent.rpartition(".")[0]} import {parent.rpartition(".")[2]}


class {kind.upper()}({parent.rpartition(".")[2]}):
    \"\"\"One.\"\"\"

    kind: Literal["{kind}"] = "{kind}"
"""
    for kind, parent in PARENTS.items()
)
