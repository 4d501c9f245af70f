"""A tree of this project's sources, from which servers and clients are started.

The tree may be an older state, for figures before and after a change. These benchmarks
then run on its packages.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.speed.processes import Helper

ROOT = Path(__file__).parents[2]
# An older tree has a package of this name too, but not all that is in this one.
_BEGIN = """
import runpy, sys, benchmarks
benchmarks.__path__.append(sys.argv[1])
sys.argv = sys.argv[2:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


@dataclass(frozen=True)
class Checkout:
    """Where the packages are."""

    root: Path = ROOT

    @property
    def environment(self) -> dict[str, str]:
        """What a process of this tree needs."""
        paths = os.pathsep.join([str(self.root), str(self.root / "protos")])
        return {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}

    def helper(self, folder: Path, module: str, *words: str, **more: str) -> Helper:
        """A module that answers lines; ``more`` is added to its environment."""
        return Helper(
            *self.command(module, *words)[1:],
            folder=folder,
            environment=self.environment | more,
            log=folder / f"{module.rpartition('.')[2]}.log",
        )

    def command(self, module: str, *words: str) -> list[str]:
        """A module of the benchmarks, on the packages of this tree."""
        return [sys.executable, "-c", _BEGIN, str(ROOT / "benchmarks"), module, *words]
