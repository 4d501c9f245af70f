"""README.md: its tables as they follow from the results, and what it says of them."""

from collections.abc import Iterator
from statistics import median

from benchmarks.asynchrony.contenders import BUFFERED, OURS, SYNCHRONOUS
from benchmarks.asynchrony.report import Ratio, sooner
from benchmarks.netlab import report as netlab
from benchmarks.tables import markdown
from tests.docs.figures import asynchrony, networks_page
from tests.docs.figures.benchmarks_page import rates
from tests.docs.figures.series import pool, saved
from tests.docs.figures.units import Quote

PAGE = "README.md"
SAID = (r"Python 3\.11|Apache-2\.0",)
CHAPTER = "What holds, and how to check it"
SETTINGS = {  # how the page calls those of the table of time
    ("log_normal", 1000): "1,000 at a time, log-normal speeds",
    ("pareto", 1000): "1,000 at a time, Pareto speeds",
    ("log_normal", 200): "200 at a time, log-normal speeds",
    ("pareto", 200): "200 at a time, Pareto speeds",
}
MODELS = {  # a task of `make bytes`, its name here, and the setting that is shown
    "mlp_decay": ("MLP", "semi_discrete .19/.02 bits"),
    "watch": ("1D-CNN", "semi_discrete .08 bits up, cyclic 19 % down"),
    "cnn": ("2D-CNN", "semi_discrete .11/.04 bits"),
    "text": ("GRU", "default"),
}
PFL, FLOWER, NUMPY = "pfl 0.6.0", "flwr 1.41.0", "batched products, NumPy"


def quotes() -> Iterator[Quote]:
    """All of the page's, beside its tables."""
    about = (r"\.80|95 %",)  # the target, and what an interval holds
    yield Quote(CHAPTER, "Time to an accuracy", pool(), about)
    ratio = _ten()
    few = pool([ratio.mean], [ratio.low, ratio.high])
    yield Quote(CHAPTER, "With few clients", few)
    links = networks_page.times_sooner()
    yield Quote(CHAPTER, "Over six", pool(more=links))
    modules = saved("mutants")["modules"].values()
    counts = [
        sum(module[what] for module in modules)
        for what in ("tried", "caught", "equivalent", "survived")
    ]
    yield Quote(CHAPTER, "Of 1,151 mistakes", pool(*([count] for count in counts)))
    ours = {task: rates(task, "latecomer") for task in "AB"}
    more = [rates(task, NUMPY).over(ours[task]) for task in "AB"]
    about = (r"2026-11-28\s+and 29",)
    yield Quote(CHAPTER, "Bare batched products", pool(more=more), about)


def rows() -> set[str]:
    """Every line of every table."""
    return {row for table in (time(), sizes(), books(), speed()) for row in table}


# ----------------------------------------------------------------------------- tables


def time() -> Iterator[str]:
    """The table of time to an accuracy."""
    cells = []
    for setting, title in SETTINGS.items():
        ratios = (faster(OURS, other, *setting) for other in (BUFFERED, SYNCHRONOUS))
        cells.append([title, *map(str, ratios)])
    columns = (BUFFERED, f"synchronous {SYNCHRONOUS}")
    return markdown(
        ("devices", *(f"times faster than {name}" for name in columns)), cells
    )


def faster(
    name: str, other: str, speed: str, flight: int, problem: str = "mlp"
) -> Ratio:
    """How many times faster one method is there than another one, of five seeds."""
    kept = asynchrony.campaign(speed, flight, problem)
    for each in (name, other):
        saved("asynchrony", "settings", kept.name, "programs", each)
    done = kept.done(asynchrony.FIVE)
    ratio = sooner(done[other], done[name], kept.target)
    assert ratio is not None
    return ratio


def _ten() -> Ratio:
    """How many times as long it takes as FedBuff with ten people."""
    return faster(BUFFERED, OURS, "log_normal", 10, "watch")


def sizes() -> Iterator[str]:
    """The table of bytes at the socket."""
    cells = []
    for task, (model, setting) in MODELS.items():
        row, _ = (
            saved("bytes", "tasks", task, "settings", each)
            for each in (setting, "uncompressed")
        )
        loss = f"{row['loss']:.4f}".removeprefix("0")
        cells.append([model, f"{row['times fewer']:.0f}", loss])
    return markdown(("model", "times fewer bytes", "accuracy lost"), cells)


def books() -> Iterator[str]:
    """The table of what is lost and doubled."""
    kill, power = saved("kill"), saved("power")
    server = sum(n for moment, n in kill["kills"].items() if moment != "of a client")
    own = [kill["books"]["kills"][what] for what in ("lost", "doubled")]
    (run,) = saved("netlab", netlab.LONG)["runs"]
    broken = [power["broken"]] * 2
    cells = [
        ["SIGKILL of a loaded server", server, *own],
        ["power cut at any write", f"{power['cuts']:,}", *broken],
        ["cut of a link", run["cuts"], run["books"]["lost"], run["books"]["doubled"]],
    ]
    columns = ("trouble", "times", "lost", "doubled")
    return markdown(columns, ([str(cell) for cell in row] for row in cells))


def speed() -> Iterator[str]:
    """The table of simulated updates a second."""
    cells = []
    for task, clients in (("A", "100"), ("B", "1,000")):
        ours = rates(task, "latecomer").values
        low, middle, high = (
            f"{float(f'{value:.3g}'):,.0f}"
            for value in (min(ours), median(ours), max(ours))
        )
        others = (_told(name, task, times="") for name in (PFL, FLOWER))
        cells.append([clients, f"{middle} ({low} to {high})", *others])
    return markdown(
        ("clients", "updates a second", "times faster than pfl", "than Flower"), cells
    )


# -------------------------------------------------------------------------- sentences


def said() -> Iterator[str]:
    """Sentences that stand on the page as they follow from the results."""
    ratio = _ten()
    yield (
        f"with ten people it takes {ratio.mean:.2f} times as long "
        f"({ratio.low:.2f} to {ratio.high:.2f})"
    )
    numpy = [_told(NUMPY, task, slower=True) for task in "AB"]
    yield f"Bare batched products in NumPy are {' and '.join(numpy)} as fast as we are"


def _told(name: str, task: str, *, slower: bool = False, times: str = " times") -> str:
    """How many times as fast we are, or they, and between what it lay."""
    us, them = rates(task, "latecomer"), rates(task, name)
    ratio = (them.over(us) if slower else us.over(them)).values
    places = 0 if median(ratio) >= 10 else 1
    ends = (f"{value:.{places}f}" for value in (min(ratio), max(ratio)))
    return f"{median(ratio):.{places}f}{times} ({' to '.join(ends)})"
