"""docs/codecs.md: each table and paragraph with the results that it quotes."""

from collections.abc import Iterator

from tests.docs.figures.papers_page import claim
from tests.docs.figures.series import Saved, Series, pool, saved
from tests.docs.figures.units import Quote

PAGE = "docs/codecs.md"
SAID = (  # settings and names
    r"10[⁴⁵⁶⁷]|[Tt]op-\d %|[\d.]+ bits?\b|decision \d+|\(0\.005\)|100 versions",
    r"20 clients|20 rounds|overhead is about 15 bytes|Python before 3\.14",
    r"[Aa] figure of 4|3 degrees|medians\s+of 4 rounds|of \.02\)",
    r"float32|of \.2 bits|learning rate \.\d+|150 times|hivemind.*|OpenFL.*|[12]D-CNN",
)


def quotes() -> Iterator[Quote]:
    """All of the page's."""
    yield from _tasks()
    yield from _updates()
    yield from _entropy()
    yield from _speed()
    once = pool(claim(17)["tables"])
    about = (r"fewer than ten|with 2 bits|claim 17",)
    yield Quote("Clients that come once", "`qsgd` with", once, about)


def _tasks() -> Iterator[Quote]:
    text = saved("bytes")["tasks"]["text"]["settings"]
    about = (
        r"So 150 times|at 181 times|5 % up and 2 % down",
        r"for 100 rounds|the others for 300",
    )
    yield Quote("Which models bear 150 times", "So 150 times", pool(text), about)
    for name, task in saved("bytes")["tasks"].items():
        for setting, row in task["settings"].items():
            label = f"{TASKS.get(name, name)}: {setting} |"
            yield Quote("Which models bear 150 times / task", label, pool(row))


TASKS = {  # as the page calls them
    "mlp": "MLP, images, learning rate .05",
    "mlp_decay": "MLP, images, learning rate .1 that falls",
    "cnn": "2D-CNN, images",
    "watch": "1D-CNN, motions",
    "text": "GRU, text",
}


def _updates() -> Iterator[Quote]:
    heading = "What fits which updates"
    found = saved("updates")
    for title, row in found.items():
        codec = title.partition(": ")[2]
        both = [each for name, each in found.items() if name.endswith(f": {codec}")]
        yield Quote(f"{heading} / ", f"{codec} |", pool(row, both))


def _entropy() -> Iterator[Quote]:
    heading = "Deflated messages"
    found = saved("entropy")
    for title in found:
        codec = title.split(", ", 1)[1].removesuffix(" up")
        rows = [row for name, row in found.items() if f", {codec} " in name]
        yield Quote(f"{heading} / codec", f"{codec} |", pool(rows))
    torch = [row for title, row in found.items() if title.endswith("as in torch")]
    yield Quote(heading, "The saving of sparse", pool(torch), (r"[\d.]+ %",))


def _speed() -> Iterator[Quote]:
    heading = "Speed and size"
    found = saved("codecs")
    targets = found["targets"]
    fastest = [Series.of(t["found"] for t in targets if "faster" in t["target"])]
    dearer = [Series.of(t["found"] for t in targets if "adding" in t["target"])]
    found_all = pool(targets, more=fastest + dearer)
    yield Quote(f"{heading} / target", "", found_all, (r"not at 10⁶",))
    yield Quote(heading, "`gaussian_k` is", found_all)
    large, small = (
        found["vectors"][f"student_t3, {size} values"]
        for size in ("10,000,000", "1,000,000")
    )
    for codec, row in large.items():
        if row:
            both = [_both(each[codec]) for each in (large, small)]
            yield Quote(f"{heading} / codec", f"{codec} |", pool(row, more=both))


def _both(row: Saved) -> Series:
    passes = row["passes"]
    pairs = zip(*(passes[s]["values"] for s in ("encode", "decode")), strict=True)
    return Series.of(map(sum, pairs))
