"""README.md: every figure of its table, and what it must say beside the best ones."""

from collections.abc import Iterator
from statistics import median

from benchmarks.series import runs
from tests.docs.figures import asynchrony, networks_page
from tests.docs.figures.benchmarks_page import rates, tried
from tests.docs.figures.papers_page import claim
from tests.docs.figures.series import Pool, Series, pool, saved
from tests.docs.figures.units import Quote

PAGE = "README.md"
SAID = (r"Python 3\.11|Apache-2\.0",)
TABLE = "What holds, and how to check it / claim"
PEERS = (
    "pfl 0.6.0",
    "pfl 0.6.0, 2 processes",
    "flwr 1.41.0",
    "batched products, NumPy",
)


def quotes() -> Iterator[Quote]:
    """All of the page's."""
    about = (r"93 wrong variants",)  # counted by a test of its own
    yield Quote(TABLE, "no schedule", pool(), about)
    drill, links, long = (quote.pool for quote in networks_page.quotes())
    yield Quote(TABLE, "over six bad links", links, LINKS)
    yield Quote(TABLE, "half an hour of cuts", long, (r"of a minute|links cut 40",))
    yield Quote(TABLE, "eight hospitals", drill, (r"six hours",))
    kill, power = saved("kill")["kills"], saved("power")
    server = sum(count for moment, count in kill.items() if moment != "of a client")
    yield Quote(TABLE, "300 SIGKILLs", pool(kill, [server]))
    yield Quote(TABLE, "a power cut", pool(power))
    modules = saved("mutants")["modules"].values()
    counts = [
        sum(module[what] for module in modules)
        for what in ("tried", "caught", "equivalent", "survived")
    ]
    yield Quote(TABLE, "of 1,151 mistakes", pool(*([count] for count in counts)))
    about = (r"of 100 clients|of 1,000 clients",)
    for row in ("17,600", "29,300", "what is"):
        yield Quote(TABLE, row, _simulation(), about)
    about = (r"\.80 on Fashion-MNIST",)
    found = [*asynchrony.ratios(), *asynchrony.others(), *asynchrony.sizes()]
    yield Quote(TABLE, "without a search", pool(more=found), about)
    about = (r"2, 4 and 8",)
    for number, row in ((14, "from the phases"), (10, "a client's"), (13, "the sum")):
        yield Quote(TABLE, row, pool(more=[*claim_values(number)]), about)
    yield Quote(
        TABLE, "at the socket", pool(more=[*fewer(), *tried()]), (r"[12]D-CNN",)
    )


LINKS = (r"256 kbit/s to 20 Mbit/s|up to 5 %",)


def fewer() -> Iterator[Series]:
    """Of every task and setting: how many times fewer bytes, and what they cost."""
    for task in saved("bytes")["tasks"].values():
        for row in task["settings"].values():
            yield Series.of([row["times fewer"]])
            yield Series.of([row["loss"]])


def claim_values(number: int) -> Iterator[Series]:
    """The cells and the checks of a claim."""
    found = claim(number)
    for table in found["tables"]:
        for row in table["rows"].values():
            for cell in row.values():
                yield Series.of(cell["values"])
    for check in found["checks"]:
        yield Series.of([check["value"]])


def _simulation() -> Pool:
    found = []
    for task in ("A", "B", "fashion"):
        us = rates(task, "latecomer")
        for name in runs(saved("simulation")["tasks"][task])[0]["rows"]:
            them = rates(task, name)
            found += [us.over(them), them.over(us)]
        found.append(us)
    return pool(more=found)


def said() -> Iterator[str]:
    """Sentences that stand on the page as they follow from the results."""
    numpy = [_told("batched products, NumPy", task, slower=True) for task in "AB"]
    both = " and ".join(numpy)
    yield f"Bare batched products in NumPy are {both} as fast as we are"
    two = [_told("pfl 0.6.0, 2 processes", task) for task in "AB"]
    yield f"pfl with two processes is {two[0]} and {two[1]} slower"
    for task, clients in (
        ("A", "100 clients with a small model"),
        ("B", "1,000 clients"),
    ):
        us = rates(task, "latecomer").values
        low, middle, high = (
            f"{float(f'{value:.3g}'):,.0f}" for value in (min(us), median(us), max(us))
        )
        pfl, flower = (_told(name, task) for name in ("pfl 0.6.0", "flwr 1.41.0"))
        if task == "A":
            pfl, flower = f"{pfl} as many as", f"{flower} as many as"
        yield f"{middle} ({low} to {high}) of {clients}, {pfl} pfl and {flower} Flower"


def _told(name: str, task: str, *, slower: bool = False) -> str:
    """How many times as fast we are, or they, between what it lay."""
    us, them = rates(task, "latecomer"), rates(task, name)
    ratio = (them.over(us) if slower else us.over(them)).values
    places = 0 if median(ratio) >= 10 else 1
    ends = (f"{value:.{places}f}" for value in (min(ratio), max(ratio)))
    return f"{median(ratio):.{places}f} times ({' to '.join(ends)})"
