"""Runs tests on a mutant, in a process of its own.

A process that has imported what others wrote is forked for each trial: it imports the
project's own modules, one of them with the mistake in it, and runs the tests. Nothing
is written into the working tree, and two runs do not disturb each other.
"""

import contextlib
import importlib.abc
import importlib.util
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from tests.mutants.operators import Mutant
from tests.mutants.table import ROOT
from tests.mutants.targets import Target

OURS = ("fedcore", "fedrun", "fedtorch", "fedserver", "fedclient", "fedsim", "fedwire")
MEMORY = 8 << 30  # bytes of addresses that a mutant may take
HOPELESS = 20.0  # a mutant may take so many seconds, and four times what is right


@dataclass(frozen=True)
class Baseline:
    """What the tests do when nothing is wrong."""

    seconds: dict[str, float]  # by test
    lines: dict[int, list[str]]  # who runs a line; those of no test run at the import

    def tests_of(self, first: int, last: int) -> list[str]:
        """Who may catch a mistake in these lines, the shortest first."""
        found: set[str] = set()
        for line in range(first, last + 1):
            found |= set(self.lines.get(line, ()))
        if "" in found:  # at the import
            found = set(self.seconds)
        return sorted(found, key=lambda test: (self.seconds[test], test))


class Mutated(SourceFileLoader):
    """Loads other text than that of the file."""

    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self._text = text

    def get_code(self, fullname: str) -> CodeType:
        """The mutant."""
        return compile(self._text, self.path, "exec", dont_inherit=True)


class Finder(importlib.abc.MetaPathFinder):
    """Finds the mutant in place of the module."""

    def __init__(self, name: str, path: str, text: str) -> None:
        self._name, self._path, self._text = name, path, text

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        """The mutant's, or nobody's."""
        if fullname != self._name:
            return None
        loader = Mutated(fullname, self._path, self._text)
        return importlib.util.spec_from_file_location(
            fullname, self._path, loader=loader
        )


def measure(target: Target, folder: Path) -> Baseline:
    """Runs all tests of a target, and notes who runs which line.

    Raises:
        RuntimeError: a test fails although nothing is wrong.
    """
    out = folder / "baseline.json"
    out.unlink(missing_ok=True)

    def run() -> int:
        import coverage

        seconds: dict[str, float] = {}

        class Contexts:
            """Says whose lines are run."""

            @pytest.hookimpl(wrapper=True)
            def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
                began = time.perf_counter()
                traced.switch_context(item.nodeid)
                try:
                    return (yield)
                finally:
                    traced.switch_context("")
                    seconds[item.nodeid] = time.perf_counter() - began

        traced = coverage.Coverage(
            data_file=None, include=[str(ROOT / target.path)], config_file=False
        )
        traced.start()
        tests = [test for test in target.tests if (ROOT / test.split("::")[0]).exists()]
        status = _pytest(tests, Contexts())
        traced.stop()
        if status == 0:
            found = traced.get_data().contexts_by_lineno(str(ROOT / target.path))
            out.write_text(json.dumps({"seconds": seconds, "lines": found}))
        return status

    status, _ = _forked(run, folder / "baseline.log", 600.0)
    if status != 0:
        tail = (folder / "baseline.log").read_text(errors="replace")[-2000:]
        raise RuntimeError(f"the tests of {target.path} fail unmutated:\n{tail}")
    saved = json.loads(out.read_text())
    lines = {int(line): who for line, who in saved["lines"].items()}
    return Baseline(saved["seconds"], lines)


def is_caught(
    mutant: Mutant, target: Target, tests: Sequence[str], base: Baseline
) -> str:
    """How the tests catch it: "failed", "hung", "crashed"; or "" if they do not."""
    if not tests:
        return ""

    def run() -> int:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        path = str(ROOT / target.path)
        sys.meta_path.insert(0, Finder(target.name, path, mutant.text))
        return _pytest(tests)

    limit = HOPELESS + 4 * sum(base.seconds[test] for test in tests)
    status, hung = _forked(run, Path(os.devnull), limit)
    if hung:
        return "hung"
    return {0: "", 1: "failed"}.get(status, "crashed")


def _pytest(tests: Sequence[str], *plugins: object) -> int:
    quiet = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header"]
    quiet += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # warmed up too early
    return int(pytest.main([*quiet, *tests], plugins=list(plugins)))


def _forked(run: Callable[[], int], log: Path, limit: float) -> tuple[int, bool]:
    """The exit status of a child and whether it had to be killed."""
    child = os.fork()
    if child == 0:
        status = 70
        try:
            os.setsid()
            with log.open("wb") as out:
                os.dup2(out.fileno(), 1)
                os.dup2(out.fileno(), 2)
            status = run()
        except BaseException:  # noqa: BLE001 -- the parent reads the log
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    deadline, hung = time.monotonic() + limit, False
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if not hung and time.monotonic() > deadline:
            hung = True
            os.kill(child, signal.SIGKILL)
        time.sleep(0.005)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what it has started
    return os.waitstatus_to_exitcode(status), hung


def warm_up() -> None:
    """Imports what others wrote, once for all trials."""
    for name in (
        "numpy", "array_api_compat", "pydantic", "hypothesis", "yaml", "click", "rich",
        "safetensors.numpy", "sqlite3", "grpc", "google.protobuf", "_pytest.python",
    ):  # fmt: skip
        importlib.import_module(name)
    ours = [name for name in sys.modules if name.partition(".")[0] in OURS]
    assert not ours, f"expected nothing of the project's own, found {ours}"
