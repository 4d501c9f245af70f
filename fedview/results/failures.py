"""Clients that fail: their code raises, skips samples, or makes useless updates."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fedcore.coordinator.events import Decided, Failed, Skipped
from fedcore.protocol import Verdict
from fedcore.text import printable

# No sound client makes an update that gets one of these verdicts.
USELESS = (Verdict.DISCARDED, Verdict.REJECTED_MALFORMED)


class Failure(NamedTuple):
    """The failures of a client."""

    times: int
    error: str  # the last one, in a line
    went_on: bool  # it sent an update since


class LeftOut(NamedTuple):
    """The samples that a client's code skipped; one counts in each of its tasks."""

    samples: int
    tasks: int
    why: str  # the last reason, in a line


def failures_of(records: Iterable[Any], names: Mapping[str, str]) -> dict[str, Failure]:
    """Returns clients whose code raised or whose updates were useless, by name.

    Args:
        records: of a run, in order.
        names: of clients, by their ids.
    """
    found: dict[str, Failure] = {}
    for record in records:
        name = names.get(getattr(record, "cid", ""), "")
        match record:
            case Failed():
                error = last_line(record.error)
            case Decided() if record.verdict in USELESS:
                error = printable(record.reason or record.verdict.value)
            case Decided() if name in found:
                found[name] = found[name]._replace(went_on=True)
                continue
            case _:
                continue
        times = found[name].times + 1 if name in found else 1
        found[name] = Failure(times, error, went_on=False)
    return found


def count_left_out(
    records: Iterable[Skipped], names: Mapping[str, str]
) -> dict[str, LeftOut]:
    """Returns clients whose code left samples out, by name.

    Args:
        records: of samples that were left out, in order.
        names: of clients, by their ids.
    """
    found: dict[str, LeftOut] = {}
    for record in records:
        name = names.get(record.cid, record.cid)
        samples, tasks, _ = found.get(name, (0, 0, ""))
        why = printable(record.why)
        found[name] = LeftOut(samples + record.count, tasks + 1, why)
    return found


def last_line(error: str) -> str:
    """Returns the last line of a traceback, which says most."""
    _, _, last = error.strip().rpartition("\n")
    return printable(last)
