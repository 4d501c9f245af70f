"""The frame of the commands: what was asked for, and how far the simulations are."""

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from fedstudies.files import require_folder
from fedstudies.tables import bars, tell

QUIET = Console(quiet=True, force_terminal=False)


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options that the experiments share."""

    config: Path | None
    app: str | None
    changes: Sequence[str]
    seeds: int
    out: Path | None
    jobs: int
    verbose: bool

    def folder(self, usual: Path) -> Path:
        """The folder of the results: ``out``, or the usual one.

        Raises:
            ConfigError: it is a file.
        """
        return require_folder(self.out or usual)


class Progress(NamedTuple):
    """A step of an experiment: one or more simulations have ended."""

    steps: int
    """How many of them have ended."""
    last: str
    """Their name or result, beside a bar."""
    line: str = ""
    """The line that is printed where there is no bar; empty: none."""


def follow(
    results: Generator[Progress], what: str, total: int, console: Console
) -> None:
    """Waits for all results; shows a bar on a terminal, and lines elsewhere.

    Args:
        results: the progress so far. The generator is closed in any case.
        what: the title of the bar.
        total: the steps until all is done, as far as that is known.
        console: where progress is shown.
    """
    with closing(results), bars(console) as bar:
        task, done = bar.add_task(what, total=total, last=""), 0
        for progress in results:
            done += progress.steps
            whole = max(total, done)
            bar.update(task, completed=done, total=whole, last=progress.last)
            if progress.line and not console.is_terminal:
                tell(console, progress.line)
