"""The table of a drill, for a terminal and for the docs."""

from collections.abc import Mapping, Sequence

from benchmarks.hospitals.app import LATE_CLASSES
from benchmarks.hospitals.schedule import LATE, SITES
from benchmarks.tables import spread
from fedcore.typing import JSON

COLUMNS = (
    "way",
    "versions",
    "before the first drop",
    "updates",
    "refused",
    "share of the late site",
    "least of the others",
    "largest",
    "accuracy",
    f"recall of {' and '.join(map(str, LATE_CLASSES))}",
    "lost",
    "doubled",
)
Rows = Mapping[str, Sequence[JSON]]


def rows(found: Rows) -> list[list[str]]:
    """A row for each way."""
    return [cells(way, runs) for way, runs in found.items()]


def cells(way: str, runs: Sequence[JSON]) -> list[str]:
    """A row: each figure's median, and its lowest and highest value."""
    others = [f"hospital-{site}" for site in range(SITES) if site != LATE]
    of_others = [[run["shares"].get(name, 0.0) for name in others] for run in runs]
    books = [run["books"] for run in runs if "books" in run]
    return [
        way,
        spread([run["versions"] for run in runs], 0),
        spread([run["versions_before"] for run in runs], 0),
        spread([run["verdicts"].get("accepted", 0) for run in runs], 0),
        spread([run["verdicts"].get("rejected_stale", 0) for run in runs], 0),
        spread([run["shares"].get(f"hospital-{LATE}", 0.0) for run in runs], 3),
        spread([min(shares) for shares in of_others], 3),
        spread([max(shares) for shares in of_others], 3),
        spread([run["accuracy"] for run in runs], 3),
        spread([run["recall"] for run in runs], 3),
        str(sum(each["lost"] for each in books)) if books else "-",
        str(sum(run["doubled"] for run in runs)),
    ]
