"""What a user types, and what comes back: the commands themselves, in this process."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from fedclient.cli import main as fedclient
from fedcore.config import Method, methods
from fedrun.user_files import PREFIX
from fedserver.cli import main as fedserver
from fedsim.cli import main as fedsim
from tests.integration.conftest import APP

WORKLOAD = f"{APP}:workload"
_COMMANDS: dict[str, click.Command] = {
    "fedclient": fedclient,
    "fedserver": fedserver,
    "fedsim": fedsim,
}


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        """Its errors, each without the word in front."""
        lines = self.err.splitlines()
        return [
            line.removeprefix("error: ") for line in lines if line.startswith("error: ")
        ]

    def sentence(self, status: int) -> str:
        """The one sentence with which it ended; nothing stands around it."""
        assert self.err.splitlines() == [f"error: {error}" for error in self.errors]
        assert len(self.errors) == 1, self.err
        assert self.status == status, self.err
        return self.errors[0]


def typed(*words: object) -> Ended:
    """Runs a command; what it raises, other than its end, is raised here."""
    name, *arguments = map(str, words)
    done = CliRunner().invoke(_COMMANDS[name], arguments, catch_exceptions=False)
    return Ended(done.exit_code, done.stdout, done.stderr)


@contextmanager
def desk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to type in; what apps and commands leave in the process is undone."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("GRPC_VERBOSITY", "NONE")
    monkeypatch.setattr(sys, "path", sys.path[:])
    known = set(sys.modules)
    try:
        yield folder
    finally:
        for name in sys.modules.keys() - known:
            module = Path(getattr(sys.modules[name], "__file__", None) or "/")
            if module.is_relative_to(folder) or name.startswith(PREFIX):
                del sys.modules[name]
        for method in methods(Method):
            if method.__module__.startswith(PREFIX):
                method.is_withdrawn = True
