"""A tree of this project's sources, by which servers and clients are started.

The tree may be that of an older state, for figures before and after a change: then
these benchmarks run on its packages.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from fedcore.typing import JSON

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

    def command(self, module: str, *words: str) -> list[str]:
        """A module of the benchmarks, on the packages of this tree."""
        return [sys.executable, "-c", _BEGIN, str(ROOT / "benchmarks"), module, *words]


class Process(AbstractContextManager["Process"]):
    """A module that answers each line of JSON with one line of JSON."""

    def __init__(
        self, command: Sequence[str], folder: Path, environment: dict[str, str]
    ) -> None:
        self.log = folder / f"{command[4].rpartition('.')[2]}.log"
        with self.log.open("ab") as errors:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.greeting = self._hear()

    def ask(self, question: str) -> JSON:
        """Says something, and waits for the answer."""
        assert self.process.stdin is not None
        print(question, file=self.process.stdin, flush=True)
        return self._hear()

    def _hear(self) -> JSON:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.communicate()
            tail = self.log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{self.process.args!r} ended:\n{tail}")
        return json.loads(line)

    def __enter__(self) -> Self:
        """It runs already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends it."""
        self.process.kill()
        self.process.communicate()
