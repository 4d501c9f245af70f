"""docs/replay.md: what it quotes of removed clients and of the speed of a replay."""

from collections.abc import Iterator
from statistics import fmean, median

from tests.docs.figures.series import NUMBER, Saved, Series, pool, saved
from tests.docs.figures.units import Quote

PAGE = "docs/replay.md"
SAID = (  # settings
    r"\b0\.1\b|α = 0\.5|buffer of 5|[Vv]ersion 0|20 versions|100 versions",
    r"some 300 such|50,000,000 values",
    r"\b200\b|at most 50 %|of 0\.9 or more|on 8 unequal|of 4",
)
CHAPTER = "By how much a retrained model differs"


def _of(versions: int) -> list[Saved]:
    return [row for row in saved("removal")["rows"] if row["versions"] == versions]


def rows() -> set[str]:
    """The tables of removed clients, and of rankings."""
    made = set(rankings())
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


def rankings() -> Iterator[str]:
    """The table of rankings by replay, beside training again."""
    measured = saved("leave_one_out")["rows"]
    for recipe, name in (("fed_avg", "FedAvg"), ("fed_buff", "FedBuff")):
        for versions in sorted({row["versions"] for row in measured}):
            of_kind = (recipe, versions)
            all_N = [r for r in measured if (r["recipe"], r["versions"]) == of_kind]
            ranked = [row for row in all_N if row["ranked"]]
            least = [
                f"{min(row[how] for row in ranked):.3f}" if ranked else "–"
                for how in ("pearson", "spearman")
            ]
            spearman = [row["spearman"] for row in all_N]
            cells = [name, str(versions), str(len(all_N)), str(len(ranked)), *least]
            cells += [f"{median(spearman):.3f}", f"{min(spearman):.3f}"]
            yield f"| {' | '.join(cells)} |"


def quotes() -> Iterator[Quote]:
    """All of the page's."""
    found = [
        Series.of(row[name] for row in _of(versions))
        for versions in (20, 100)
        for name in ("relative", "recorded", "replayed", "retrained")
    ]
    yield Quote(CHAPTER, "", pool(more=found))
    measured = saved("leave_one_out")["rows"]
    within = [float(sum(row["within"] for row in measured)), 8.0 * len(measured)]
    yield Quote("Who helped, and who hurt", "", pool(more=[Series.of(within)]))
    replay = saved("speed")["benchmarks"]["replay"]
    of_title = [float(n.replace(",", "")) for n in NUMBER.findall(replay["title"])]
    measured = pool(replay["groups"]["journal"], of_title)
    yield Quote("How long it takes", "", measured)
