"""The results of the checks: a line each, and a hint if something is wrong."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from fedcore.errors import LatecomerError, UserCodeError
from fedcore.text import from_peer
from fedcore.typing import JSON
from fedcore.user_code import last_words


class Level(Enum):
    """The severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"
    """It depends on a check that has failed."""


@dataclass(frozen=True)
class Finding:
    """The outcome of one check."""

    what: str
    level: Level
    text: str
    hint: str = ""
    facts: JSON = field(default_factory=dict)


class Findings(list[Finding]):
    """The outcomes of all checks, in their order."""

    def ok(self, what: str, text: str, **facts: Any) -> None:
        """Adds a finding without a problem."""
        self._note(what, Level.OK, text, "", facts)

    def warn(self, what: str, text: str, hint: str, **facts: Any) -> None:
        """Adds a problem that does not keep the client from joining."""
        self._note(what, Level.WARNING, text, hint, facts)

    def fail(self, what: str, text: str, hint: str, **facts: Any) -> None:
        """Adds a problem that keeps the client from joining."""
        self._note(what, Level.FAILED, text, hint, facts)

    def _note(self, what: str, level: Level, text: str, hint: str, facts: JSON) -> None:
        self.append(Finding(what, level, from_peer(text), hint, facts))

    def skip(self, why: str, *whats: str) -> None:
        """Marks checks as skipped because they cannot be made."""
        self.extend(Finding(what, Level.SKIPPED, why) for what in whats)

    @contextlib.contextmanager
    def explaining(self, what: str, hint: str) -> Iterator[None]:
        """Turns an error in the block into a finding."""
        try:
            yield
        except LatecomerError as error:
            text = str(error)
            if isinstance(error, UserCodeError) and error.__cause__ is not None:
                *_, last = last_words(error).splitlines() or [""]
                text = f"{text}: {last}" if last not in text else text
            self.fail(what, text, hint)

    def has_failed(self, *whats: str) -> bool:
        """Returns whether one of these checks, or any check, failed or was skipped."""
        bad = Level.FAILED, Level.SKIPPED
        return any(
            each.level in bad and (not whats or each.what in whats) for each in self
        )

    def lines(self) -> Iterator[str]:
        """Yields the lines of a table for people."""
        wide = max((len(each.what) for each in self), default=0)
        for each in self:
            yield f"{each.level.value:<8}{each.what:<{wide}}  {each.text}"
            if each.hint:
                yield f"{'':<8}{'':<{wide}}  hint: {each.hint}"

    def to_json(self) -> JSON:
        """Returns the outcomes for programs."""
        return {
            "ok": not self.has_failed(),
            "checks": [
                {
                    "check": each.what,
                    "level": each.level.value,
                    "text": each.text,
                    "hint": each.hint,
                    **each.facts,
                }
                for each in self
            ],
        }
