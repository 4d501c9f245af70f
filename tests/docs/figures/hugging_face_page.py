"""docs/hugging_face.md: what it quotes of adapters alone and federated."""

from collections.abc import Iterator
from statistics import fmean

from tests.docs.figures.series import Saved, Series, pool, saved
from tests.docs.figures.units import Quote

PAGE = "docs/hugging_face.md"
CHAPTER = "What is measured"
CHAPTERS = (CHAPTER,)
SAID = (r"GPT-2", r"rank 8", r"width 64", r"128 bytes", r"10 steps")
WAYS = ("base", "local", "federated", "central")


def rows() -> set[str]:
    """The table of bits per byte."""
    found = saved("hugging_face")["rows"]
    whole = [_told(found, way) for way in WAYS]
    own = ["", _told(found, "local_own"), _told(found, "federated_own"), ""]
    return {_row("all packages", whole), _row("the client's own", own)}


def _row(name: str, cells: list[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |".replace("|  |", "| |")


def _told(found: list[Saved], name: str) -> str:
    """The mean, and how far apart the seeds are."""
    values = [row[name] for row in found]
    mean, low, high = (f"{v:.3f}" for v in (fmean(values), min(values), max(values)))
    return mean if low == high else f"{mean} ({low} to {high})"


def quotes() -> Iterator[Quote]:
    """All of the page's."""
    result = saved("hugging_face")
    found = result["rows"]
    sent = Series.of(row["update_bytes"] for row in found)
    ratios = [
        Series.of(row[name] for row in found).over(sent)
        for name in ("adapter_bytes", "both_bytes", "model_bytes")
    ]
    seconds = [
        Series.of(row[name] for row in found) for name in ("seconds", "cpu_seconds")
    ]
    whole = Series.of(row["seconds"] + result["base_seconds"] for row in found)
    seconds.append(Series.of([result["base_seconds"]]))
    counts = [Series.of([len(found)]), Series.of([8])]
    named = [
        Series.of(row[name] for row in found)
        for name in found[0]
        if name.endswith("bytes")
    ]
    yield Quote(
        CHAPTER,
        "",
        pool(
            result["machine"]["cores"],
            more=[*named, sent, *seconds, whole, *ratios, *counts],
        ),
    )
