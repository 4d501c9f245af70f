"""The tables of federations over bad links, for a terminal and for the docs."""

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.netlab.ways import OURS, TARGET, UNCOMPRESSED
from benchmarks.tables import spread
from fedcore.typing import JSON

LONG = "long"
COLUMNS = (
    "federation",
    f"seconds to {TARGET}",
    "versions",
    "updates",
    "MB up",
    "MB down",
    "cuts",
    "lost",
    "doubled",
)


def rows(found: Mapping[str, Sequence[JSON]]) -> list[list[str]]:
    """A row for each way."""
    return [cells(way, runs) for way, runs in found.items()]


def sooner(found: Mapping[str, Sequence[JSON]]) -> str:
    """How many times as soon the recipe is there; nothing where that is unknown."""
    if not {OURS, UNCOMPRESSED} <= found.keys():
        return ""
    ratios = times_sooner(found[OURS], found[UNCOMPRESSED])
    if not ratios:
        return ""
    return f"{OURS} is there {spread(ratios, 1)} times as soon as {UNCOMPRESSED}"


def cells(way: str, runs: Sequence[JSON]) -> list[str]:
    """A row: each figure's median, and its lowest and highest value."""
    figures = [
        spread([_or_limit(row) for row in runs], 0),
        spread([row["versions"] for row in runs], 0),
        spread([row["books"]["journalled"] for row in runs], 0),
        *(spread([row["bytes"][to] / 1e6 for row in runs], 1) for to in ("up", "down")),
        spread([row["cuts"] for row in runs], 0),
        str(sum(row["books"]["lost"] for row in runs)),
        str(sum(row["books"]["doubled"] for row in runs)),
    ]
    if any(row["seconds"] is None for row in runs):
        figures[0] = f"more than {figures[0]}"
    return [way, *figures]


def times_sooner(ours: Sequence[JSON], theirs: Sequence[JSON]) -> list[float]:
    """How many times as soon, seed by seed; at least, where theirs never got there."""
    return list(_ratios(ours, theirs))


def _ratios(ours: Sequence[JSON], theirs: Sequence[JSON]) -> Iterator[float]:
    by_seed = {row["seed"]: row for row in theirs}
    for row in ours:
        if row["seconds"] is not None and row["seed"] in by_seed:
            yield _or_limit(by_seed[row["seed"]]) / row["seconds"]


def _or_limit(row: JSON) -> float:
    return float(row["limit"] if row["seconds"] is None else row["seconds"])
