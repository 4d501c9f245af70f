"""What was tried, what survived, and why that is no mistake.

``equivalent.json`` lists the mutants that behave like the program, each with the
reason; ``*`` stands for whatever a line may become. They are named by what they change,
not by a number of a line, so they outlive changes elsewhere in the module.
"""

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.basis import stamp
from tests.mutants.operators import Mutant
from tests.mutants.table import ROOT

EQUIVALENT = Path(__file__).parent / "equivalent.json"


@cache
def reasons() -> dict[tuple[str, str, str, str], str]:
    """Why some mutants behave like the program."""
    return {
        (each["module"], each["function"], each["was"], each["becomes"]): each["why"]
        for each in json.loads(EQUIVALENT.read_text(encoding="utf-8"))
    }


@dataclass
class Book:
    """The trials of one module."""

    path: str
    file: Path
    total: int  # mutants that there are
    drawn: list[Mutant] = field(default_factory=list)
    _how: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.file.exists():
            for line in self.file.read_text(encoding="utf-8").splitlines():
                key, how = json.loads(line)
                self._how[key] = how

    def how(self, mutant: Mutant) -> str | None:
        """How it was caught; empty if it was not; None if it was not tried."""
        return self._how.get(mutant.key)

    def write(self, mutant: Mutant, how: str) -> None:
        """Notes a trial."""
        self._how[mutant.key] = how
        with self.file.open("a", encoding="utf-8") as out:
            out.write(json.dumps([mutant.key, how]) + "\n")

    def reason(self, mutant: Mutant) -> str:
        """Why it behaves like the program, if somebody said so."""
        place = (mutant.path, mutant.function, mutant.was)
        known = reasons()
        return known.get((*place, mutant.becomes)) or known.get((*place, "*"), "")

    def survivors(self) -> list[Mutant]:
        """Those that no test has caught."""
        return [mutant for mutant in self.drawn if self.how(mutant) == ""]

    def unexplained(self) -> list[Mutant]:
        """Survivors that change behaviour, as far as anybody knows."""
        return [mutant for mutant in self.survivors() if not self.reason(mutant)]

    def figures(self) -> dict[str, Any]:
        """What is saved."""
        survivors, unexplained = self.survivors(), self.unexplained()
        equivalent = len(survivors) - len(unexplained)
        return {
            "mutants": self.total,
            "tried": len(self.drawn),
            "caught": len(self.drawn) - len(survivors),
            "equivalent": equivalent,
            "survived": len(unexplained),
            "survivors": [
                {
                    "function": mutant.function,
                    "was": mutant.was,
                    "becomes": mutant.becomes,
                    "why": self.reason(mutant),
                }
                for mutant in survivors
            ],
        }

    def line(self) -> str:
        """For people."""
        got = self.figures()
        real = got["tried"] - got["equivalent"]
        return (
            f"{self.path}: {got['caught']} of {real} caught, "
            f"{got['survived']} survived, {got['equivalent']} equivalent"
        )


def save(file: Path, books: list[Book], sample: int, seed: int, tool: str) -> None:
    """Writes the figures of these modules into a file; others in it stay."""
    path = ROOT / file
    old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    modules = old.get("modules", {})
    for book in books:
        drawn = {"sample": sample, "seed": seed}
        modules[book.path] = drawn | book.figures() | stamp()
    text = json.dumps(
        {"cosmic_ray": tool, "modules": dict(sorted(modules.items()))},
        indent=1,
        ensure_ascii=False,
    )
    path.write_text(text + "\n", encoding="utf-8")
