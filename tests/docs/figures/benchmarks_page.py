"""docs/benchmarks.md: each table and paragraph with the results that it quotes."""

from collections.abc import Iterator
from statistics import fmean

from benchmarks import ablation
from benchmarks.asynchrony.contenders import BOOSTED
from benchmarks.bytes.levers import Came
from benchmarks.bytes.tasks import TASKS
from tests.docs.figures import asynchrony
from tests.docs.figures.series import Pool, Saved, Series, pool, saved
from tests.docs.figures.units import Quote
from tests.mutants.table import table

PAGE = "docs/benchmarks.md"
SAID = (  # sizes, settings and names
    r"MLP [\d-]+|2D-CNN|1D-CNN|CNN",
    r"\d+ in flight|K = \d+|s = \d+",
    r"[\d,]+ clients a round|[\d,]+ of [\d,]+ clients",
    r"Dirichlet \.3|batches of \d+|\d+ rounds|\d seeds|[\d,]+ values|SGD \.1",
    r"exit status is 1|HTTP/2|(?:learning rate|learning rate of|with) \.\d+|falls to 0",
    r"894 windows|\.01 is nine|[\d.]+ %|have 20 samples|to 16 samples",
    r"decision \d+|1e\d|lingered for 3 s|1M values|10 updates make|100,000\s+clients",
)


def quotes() -> Iterator[Quote]:
    """All of the page's."""
    yield from _speed()
    yield from _bytes()
    yield from _hostile()
    yield from _disasters()
    yield from _simulation()
    yield from _asynchrony()
    yield from _ablation()


# -------------------------------------------------------------------------- speed

SPEED = {  # how a row begins, and the groups and rows of the file that it quotes
    "aggregate": ("aggregation", "dense"),
    "`np.mean`": ("aggregation", "dense"),
    "aggregate 100 top-k": ("aggregation", "top-k"),
    "`np.add.at`": ("aggregation", "top-k"),
    "write 4 MB": ("durable", "4 MB"),
    "new files of 4 MB": ("durable", "4 MB"),
    "SQLite blobs of 4 MB": ("durable", "4 MB"),
    "write 1 kB records |": ("durable", "1 kB"),
    "SQLite blobs of 1 kB |": ("durable", "1 kB"),
    "write 1 kB records, 64": ("durable", "1 kB, 64"),
    "SQLite blobs of 1 kB, 64": ("durable", "1 kB, 64"),
    "FedBuff, dense": ("server", "FedBuff, dense"),
    "FedBuff, top-k": ("server", "FedBuff, top-k"),
    "Latecomer: top-k": ("server", "Latecomer"),
    "`fedserver run`": ("start", "server, from start"),
    "the same after SIGKILL": ("start", "server, from start"),
    "`fedclient join`": ("start", "client, from start"),
    "idle server": ("start", "server, memory"),
    "idle client": ("start", "client, memory"),
}


def _speed() -> Iterator[Quote]:
    found = saved("speed")["benchmarks"]
    for begins, (name, group) in sorted(SPEED.items(), reverse=True):  # longest first
        groups = found[name]["groups"]
        tree = next(rows for title, rows in groups.items() if title.startswith(group))
        seconds = [s.times(1e-3) for s in _series(tree, "ms")]
        yield Quote("`make bench` / ", begins, pool(tree, more=seconds))
    memory = pool(found["aggregation"]["groups"])
    yield Quote("`make bench`", "Stacking takes", memory, (r"1 kB",))
    for name, row in found["catch_up"]["groups"]["downlink"].items():
        yield Quote("`make bench` / downlink", f"{name} |", pool(row))
    yield Quote("`make bench`", "", pool(), (r"1M values|4 clients",))


def _series(tree: Saved, column: str) -> Iterator[Series]:
    for row in tree.values():
        if column in row:
            yield Series.of(row[column]["values"])


# -------------------------------------------------------------------------- bytes


def _bytes() -> Iterator[Quote]:
    tasks = saved("bytes")["tasks"]
    for name, task in tasks.items():
        found = task["settings"]
        for setting, row in found.items():
            yield Quote(f"`make bytes` / `{name}`", f"{setting} |", pool(row))
    about = (r"Half a point of accuracy does not buy 300\s+times",)
    yield Quote("`make bytes`", "Half a point", pool(), about)
    yield from _levers()
    text = (
        r"100\s+of them|5,000 characters|10 clients a round|learning rate of 4",
        r"batches of \d+|[\d,]+\s+values|\d seeds|100 rounds",
    )
    chosen = pool(tasks["text"]["rates"])
    yield Quote("`make bytes`", "Text", chosen, text)
    about = (r"of \.1 is not|rows \.2 comes|compression at \.2",)
    yield Quote("`make bytes`", "The learning rate of .1", pool(more=tried()), about)
    counted = tasks["digits"]["settings"]["top_k 1/.2 %"]["seeds"][0]["counted"]
    for way in ("up", "down"):
        yield Quote("`make bytes` / bytes of the run", way, pool(counted[way]))


def _levers() -> Iterator[Quote]:
    """What else was tried: means of all seeds, and what they lose."""
    columns = {
        name: [Series.of(run[c] for run in kept["runs"]) for c in Came._fields]
        for name, kept in saved("levers").items()
    }
    for name, found in columns.items():
        said = (r"semi_discrete \.08/\.01 bits",)
        yield Quote("`make bytes` / lever", f"{name} |", pool(more=found), said)
    whole, *others = (accuracy for accuracy, *_ in columns.values())
    lost = [Series.of([fmean(whole.values) - fmean(o.values)]) for o in others]
    said = (r"300 rounds|3\s+seeds|EF21",)
    yield Quote("`make bytes`", "What else was tried", pool(more=lost), said)


def tried() -> list[Series]:
    """The perceptron's rates on held-out rows, and what the best one gains on ours."""
    rates = saved("bytes")["tasks"]["mlp_decay"]["rates"]
    gained = max(rates.values()) - rates[f"{TASKS['mlp_decay'].lr:g}"]
    return [*map(Series.of, ([rate] for rate in rates.values())), Series.of([gained])]


# ------------------------------------------------------------------------ hostile


def _hostile() -> Iterator[Quote]:
    found = saved("hostile")
    for attack in found["attacks"].values():
        yield Quote("`make hostile`", attack["title"], pool(attack))
    for traffic, row in found["speed"].items():
        yield Quote("`make hostile`", traffic, pool(row))
    after = [attack["after"]["ratios"] for attack in found["attacks"].values()]
    ratios = Series.of(ratio for attack in after for ratio in attack)
    about = (r"64 clients|1,000 half-closed",)
    yield Quote("`make hostile`", "Single ratios", pool(more=[ratios]), about)
    closed = found["attacks"]["half_closed"]
    yield Quote("`make hostile` / what", "slowest health call", pool(closed))
    shown = [sum(list(s.values())[:2]) for s in found["single"]["texts"].values()]
    single = pool(found["single"], more=[Series.of([n]) for n in shown])
    yield Quote("`make hostile` / what", "", single)


# ---------------------------------------------------------------------- disasters


def _disasters() -> Iterator[Quote]:
    kill, power = saved("kill"), saved("power")
    server = sum(v for k, v in kill["kills"].items() if k != "of a client")
    yield Quote("`make kill`", "", pool(kill, [server], [20]), (r"\d clients",))
    minutes = Series.of([power["seconds"] / 60])
    yield Quote("`make power`", "", pool(power, more=[minutes]))
    modules = saved("mutants")["modules"].values()
    counts = ("mutants", "tried", "caught", "equivalent", "survived")
    sums = {k: sum(m[k] for m in modules) for k in counts}
    planted = saved("planted")["modules"].values()
    drawn = {k: sum(m[k] for m in planted) for k in counts[1:]}
    yield Quote("`make mutants`", "", pool(sums, drawn))


# --------------------------------------------------------------------- simulation


def rates(task: str, row: str, column: str = "updates/s") -> Series:
    """A column of a contender, in the newest run."""
    rows = saved("simulation", "tasks", task)["rows"]
    return Series.of(rows[row][column]["values"])


def contest(task: str, row: str) -> Pool:
    """All of a contender, and how it compares with the first one."""
    rows = saved("simulation", "tasks", task)["rows"]
    us, them = (rates(task, name) for name in (next(iter(rows)), row))
    return pool(rows[row], more=[us.over(them), them.over(us)])


TABLES = {"A": "task A", "B": "task B", "fashion": "CNN", "processes": "processes"}
TOLD = {  # as the page calls a contender, where that is not the file's name
    "fedjax 0.0.17": "FedJAX",
    "flwr 1.41.0": "Flower",
    "torch.func vmap": "`torch.func` vmap",
    "pfl 0.6.0, 2 processes": "pfl 0.6.0, two processes",
    "1,000 clients": "1,000 |",
}


def _simulation() -> Iterator[Quote]:
    chapter = "`make simulation`"
    tasks = saved("simulation")["tasks"]
    for task, kept in tasks.items():
        rows = kept["rows"]
        table = f"{chapter} / {TABLES.get(task, task)}"
        for name in sorted(rows, key=len, reverse=True):
            label = TOLD.get(name, name.removesuffix(" clients"))
            yield Quote(table, label, contest(task, name))
    about: tuple[str, ...]
    large, tiny = (rates("tiny", name) for name in tasks["tiny"]["rows"])
    more, about = [large, tiny, large.over(tiny)], (r"15 clients.*rows take",)
    about += (r"20 steps|25 rows",)
    yield Quote(chapter, "One tiny client", pool(more=more), about)
    bounds = [tasks[task]["targets"] for task in "AB"]
    yield Quote(f"{chapter} / asked for", "", pool(bounds))
    yield Quote(chapter, "At most 1.15", pool(tasks["population"]["targets"]))
    last, codec = list(tasks["asynchronous"]["rows"])[-1], "rounds, top-k with memories"
    share = rates("asynchronous", last).over(rates("asynchronous", codec))
    yield Quote(chapter, "The last row", pool(more=[share]))
    yield Quote(chapter, "1.5 times the loop", pool(tasks["fashion"]["targets"]))
    two = rates("processes", "2 processes").over(rates("processes", "1 process"))
    asked = tasks["processes"]["targets"]
    yield Quote(chapter, "Two processes are", pool(asked, more=[two]))


# --------------------------------------------------------------------- asynchrony


def _asynchrony() -> Iterator[Quote]:
    chapter = "`python -m benchmarks.asynchrony`"
    about: tuple[str, ...] = (
        r"2,000 clients, 200 or 1,000 training|batches of 10|12 runs with seed 0",
    )
    about += (r"784-128-10|seeds 1 to 3|95 % intervals|Dirichlet \.3|has \.1 and 2",)
    yield Quote(chapter, "Virtual time", pool(), about)
    more = [*asynchrony.ratios(), *asynchrony.controls(), *asynchrony.latest()]
    about = (
        r"1,000 in flight|200 in flight|with 1,000|with 200|1/√\(1 \+ τ\)",
        r"(?:to|at) \.(?:78|80)",
    )
    about += (r"server\s+rate of \d|after 50 units|12 runs|rate \.2\)|Pareto, \.1\)",)
    tried = asynchrony.campaign("pareto", 1000).tried(BOOSTED)
    more.append(Series.of([max(each.best for each in tried)]))
    begin = (
        *(
            '"Latecomer" is',
            "1.3 times faster",
            "to .",
        ),
        *("What the parts", "AdaSGD's"),
    )
    about += (r"their 12\s+runs|seeds 1 to \d|seeds 0, 7 and 8|1\.3 times faster",)
    for begins in begin:
        yield Quote(chapter, begins, pool(more=more), about)

    others = pool(more=[*asynchrony.others(), *asynchrony.sizes()])
    about = (
        r"Dirichlet \.3|batches of \d+|\d+ runs for|seeds 1 to \d|over 200 clients",
    )
    about += (r"106,122|23,847|buffer of 3|\b5 steps|about 15",)
    about += (r"(?:at|to)\s+\.80|to \.7[05] and \.80",)
    about += (r"rate of \.2 instead of \.1",)
    for begins in (
        "Other models",
        "And ten",
        "At its own",
        "With the codecs on",
        "With the CNN",
    ):
        yield Quote(chapter, begins, others, about)


def _ablation() -> Iterator[Quote]:
    chapter = "`python -m benchmarks.ablation`"
    whole = ablation.load(saved("ablation")["one by one"])
    ours = [each.seconds for each in whole["the default recipe"]]
    theirs = [each.seconds for each in whole["with AdaComm"]]
    sooner = Series.of([fmean(ours) / fmean(theirs)])
    text = (r"200 of 2,000|12 of 60|\.80|\.90|period of 10|seeds 1 to 3|64\b",)
    for begins in ("The worth", "Weights and", "All 64", "In the small"):
        yield Quote(chapter, begins, pool(more=[sooner]), text)


def rows() -> set[str]:
    """Rows of tables that are made from the results."""
    found = {row for setting in asynchrony.TITLES for row in asynchrony.table(*setting)}
    parts = {
        f"| {' | '.join(row)} |".replace("|  |", "| |") for row in _ablation_rows()
    }
    found |= {row for name in asynchrony.LARGER for row in asynchrony.larger(name)}
    return found | {*asynchrony.against_both(), *table().splitlines()} | parts


def _ablation_rows() -> Iterator[list[str]]:
    return ablation.tables(saved("ablation"))
