"""docs/replay.md: what it quotes of removed clients and of the speed of a replay."""

from collections.abc import Iterator
from statistics import fmean

from tests.docs.figures.series import NUMBER, Saved, Series, pool, saved
from tests.docs.figures.units import Quote

PAGE = "docs/replay.md"
SAID = (  # settings
    r"\b0\.1\b|α = 0\.5|buffer of 5|[Vv]ersion 0|20 versions|100 versions",
    r"some 300 such",
)
CHAPTER = "By how much a retrained model differs"


def _of(versions: int) -> list[Saved]:
    return [row for row in saved("removal")["rows"] if row["versions"] == versions]


def rows() -> set[str]:
    """The table of removed clients."""
    made = set()
    for versions in sorted({row["versions"] for row in saved("removal")["rows"]}):
        found = _of(versions)
        shares = [fmean(row[name] for row in found) for name in ("relative", "of_norm")]
        accuracies = [
            fmean(row[name] for row in found)
            for name in ("recorded", "replayed", "retrained")
        ]
        cells = [f"{shares[0]:.2f}", f"{100 * shares[1]:.1f} %"]
        cells += [f"{value:.3f}" for value in accuracies]
        made.add(f"| {versions} | {' | '.join(cells)} |")
    return made


def quotes() -> Iterator[Quote]:
    """All of the page's."""
    found = [
        Series.of(row[name] for row in _of(versions))
        for versions in (20, 100)
        for name in ("relative", "recorded", "replayed", "retrained")
    ]
    yield Quote(CHAPTER, "", pool(more=found))
    replay = saved("speed")["benchmarks"]["replay"]
    of_title = [float(n.replace(",", "")) for n in NUMBER.findall(replay["title"])]
    measured = pool(replay["groups"]["journal"], of_title)
    yield Quote("How long it takes", "", measured)
