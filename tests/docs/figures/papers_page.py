"""docs/papers.md: each table and paragraph with the claim that it quotes."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from benchmarks.claims.__main__ import FRESH
from benchmarks.claims.both_memories import SPARED
from benchmarks.claims.coded_computation import SIZES, formulas
from benchmarks.claims.exactly_once import COMPARED
from benchmarks.claims.report import Verdict
from benchmarks.series import runs
from tests.docs.figures import larger
from tests.docs.figures.series import Pool, Saved, Series, pool, saved
from tests.docs.figures.units import Quote
from tests.docs.pages import ROOT

PAGE = "docs/papers.md"
SAID = (  # settings, names, and years
    r"(?:ICML|AAAI|NeurIPS|Middleware|AISTATS|MLSys|ICLR|ICASSP) \d+",
    r"arXiv [\d.]+|\(18\.4 %\)",
    r"[Cc]laims? [\d, to]+(?:and \d+)?|8x8|64-32-10|EF21|CA2FL|CAFe|10[⁵⁶⁷]|float\d\d",
    r"IJCAI \d+|28x28|95 % interval",
    r"exit code is 1|1,797 real|1,347 to train and 450 to test|2,410 parameters",
    r"[Tt]op-\d %|random-\d %|percentile (?:of )?[\d.]+|99\.7th|s = [\d.]+",
    r"\d+ bits|\d+ a round|\d+ local steps|[\d,]+ rounds|\d+ clients|\d+ versions",
    r"Dirichlet \.3|120,000 events|93 deliberately|balance within \.01",
    r"0 violations|100 and more|than 50 clients|CIFAR-100|claimed in",
    r"he paper; of 2[^.]*\.",
)
SETTINGS = {
    3: (
        r"more than 40 %|classes 0, 1\s+and 2|probability \.\d+|gap of \.15",
        r"recall at round 100|10\s+of 50\s+clients|round\s+300|at 30 %|at 60 %|κ = 30",
        r"`random_k` 10 %|10 %",
    ),
    5: (r"class 0|Class 0|20 images|One of 20|N\(\d+, \d\)|to 90 %",),
    4: (r"50 messages|of 50",),
    6: (r"99\.7|class 0|96 versions|1,500 updates|5 % of the updates|500 updates",),
    7: (
        r"up to 3\.6 times|10 ms a\s+sample|5 % of noise|3 s\b|(?:after )?three tasks",
        r"1, 2, 4 and 8 ms|miss \.4 s|2 asked for|energy 19 times|room for 19",
        r"3,000 mAh|at 5 W|has 0\.036 %",
    ),
    8: (r"0 to s|8 workers|92 %|s = 0|most 1\.6|rate of \.2|2 times",),
    10: (
        r"Pearson \.986 \(convex\)",
        r"[Dd]irichlet \.5|5 a round|of 16 images|rate \.3|100 rounds|for \.95",
        r"has \.986|\.986, \.796 and \.620|\.796\s+and \.620|50 samples|9 - y|30 %",
        r"53\.86 to 55\.66 %|of 20 clients",
    ),
    11: (
        r"8 workers|1 \+ Exp\(\.2\)|take 10|rate \.5|loss \.\d+|loss of \.05|\b8 steps",
        r"20 steps|α = \.\d|β = \.7|1\.15|100 s|momentum of \.9|Dirichlet \.3",
    ),
    9: (r"mean -?100|4k/3|is 1\s+value|1 in 1,000|[\d.]+ %|Dirichlet \.3",),
    14: (
        r"[Rr]eal loopback.*of 2, 4 and 8|8 Mbit/s up|16\s+Mbit/s|31 tasks",
        r"200 kB|\.7 s",
        r"W = 2, 4 and 8|\.15 at most|1\.5 was|8 times one|staleness in rounds is 0",
        r"ICPE \d+|of 2, 4 and 8 clients",
    ),
    13: (
        r"8\s+workers|s \+ 1|weights are 0 and 1|three seeds|have 1,000 values",
        r"50,000 draws|with (?:10|50)\b|n = \d+|k = \d+|1 \+ Exp\(1\)|\d ms a sample",
        r"batches of 120|250 ms|12 steps|6,000 real|6 workers|10⁻¹[³⁵]|\(α \+ 1/n\)",
        r"Algorithm 2|TIT 2018|EC2",
    ),
    12: (
        r"ridge of \.01|rate \.3|and 4\s+samples|\(1 to 16\)|\(0 to \.75\)|20 pairs",
        r"up to (?:8|16) workers|loss of \.3[68]|45 minutes|90 minutes|30 s|3\.06 USD",
        r"one 1\.09|(?:asked\s+)?for \.4\b",
        r"INFOCOM \d+|1/[ny]|20 (?:of 20 )?preemption\s+seeds|three seeds|the \.4",
    ),
    16: (r"30 to 40\s+of them|K = \d|[Ww]ith 8 workers|8 workers|one step",),
    17: (r"1,500 clients|150 rounds|16 images|1 % of the values",),
    22: (
        r"up to 1\.6|its 1\.6|loss (?:of|is) \.\d+|batches of 16|IC2E 2021|lr [\d.]+",
        r"[Rr]ate \.\d|one of five|100 steps|of 4,000|8 a round|5 local|20 clients",
        r"ρ (?:=|is) \.\d",
    ),
    23: (r"1 of 5|do 5 epochs|more than 40 %|0, 1 and 2|cap 5|η = \.05|of 16|is 5",),
    24: (
        r"5 local|of 16 images|rate \.1|8 and 16|\b[12] class(?:es)?|asked for \.1",
        r"λ = \.1|\b2 groups|ICLR \d+",
    ),
    26: (
        r"1 of 5|do 5 epochs|20 clients|8 take part|a tenth|α = \.\d+|with \.01",
        r"η = \.05|one of three seeds",
    ),
    25: (
        r"1,898 parameters|B 8|40 epochs|momentum \.9|after 20 and 30|of 8",
        r"lr [\d.]+|rate of \.1|by 1 to 10|200\s+epochs",
    ),
    18: (
        r"[\d.]+ s\b|[\d.]+ or 6 seconds|20 local|\.35 to \.8|server rate of 2",
        r"5 and 20 versions\s+late|(?:is|where it is) \d+ (?:versions )?late",
    ),
    19: (
        r"91\.63 % against 90\.00 %|75\.78 % against 75\.86 %|CIFAR-10+|400\s+rounds",
        r"16 workers|groups of 4|to \.95|has \.95|on 16 images|rate \.2",
        r"10 ms|7\.7 ms|4 workers|decision 45|ICLR \d+",
    ),
    20: (
        r"T = [\d.]+(?:/√t)?|1/√t|1\.8 to 53\.5|0\.1 s|0\.05\s+Mbit|1\.5 s there",
        r"NSDI 2017|\.95\b|900 versions|\d steps ahead|five times fewer",
    ),
    21: (r"T = [\d.]+|skew [\d.]+|200 rounds|5 local steps|loss of \.05|near \.95",),
    27: (
        r"1\.2 to 14\.1 times|1\.3 to 9\.8 %|to \.90|after 30 s|\(σ = 1\)|OSDI 2021",
        r"batches of 8|of 6 updates|1\.1 times as many|10th percentile|Dirichlet \.3",
    ),
    29: (r"2\.3 times|40 clients|\b16 fresh|\d+ hours",),
    30: (r"TIT \d+|442 patients|300 steps|n = \d+|k = \d+|10⁻¹³|10 epochs|limit of 4",),
    31: (r"recall 95 %|58\s+times|37 times|16 noisy|512 units|\(8\)|32 units",),
    32: (r"ICPE \d+|10 Mbit/s",),
    33: (r"75 minutes|5 minutes|3 preemptions",),
    34: (r"after 10 and 80\s+more",),
    35: (
        r"seeds 0 to 9|(?:batches|that) of 8|loss of \.1|2,700 steps|20 epochs",
        r"\(1 \+ L|than 128",
    ),
    28: (
        r"a third of\s+the time|loss of \.3|τ\s+= \d+|\d+ at first|batches of \d+",
        r"10 s of|1\.2 s a|every 120 s|every 300 s|rate \.?\d|6,000 s",
    ),
}


def claim(number: int) -> Saved:
    """The run that the page shows: the last with fresh seeds, or the last one."""
    return fresh(number) or _runs(number)[-1]


def fresh(number: int) -> Saved | None:
    """The last run with other seeds, which give the verdict; None: there is none."""
    whole = (run for run in _runs(number) if not run["quick"])
    found = [run for run in whole if run["seeds"][0] >= FRESH]
    return found[-1] if found else None


def untried() -> list[int]:
    """The claims that were not tried with other seeds."""
    numbers = (each["claim"] for each in saved("claims")["claims"])
    return [number for number in numbers if fresh(number) is None]


def _runs(number: int) -> Sequence[Saved]:
    found = saved("claims")["claims"]
    return runs(next(each for each in found if each["claim"] == number))


BEGINNINGS = {  # of a cell of the first table, and of the verdict in a section
    Verdict.HOLDS: ("holds", "Holds"),
    Verdict.IN_PART: ("in part", "Holds in part"),
    Verdict.NOT: ("no", "Does not hold"),
    Verdict.OPEN: ("cannot be told", "Cannot be told"),
}


def misquoted() -> list[int]:
    """The claims of which the page tells another verdict than that of fresh seeds."""
    page, found = (ROOT / PAGE).read_text(encoding="utf-8"), []
    for number in (each["claim"] for each in saved("claims")["claims"]):
        if (run := fresh(number)) is None:
            continue
        cell, section = BEGINNINGS[Verdict(run["verdict"])]
        row = re.search(rf"^\| {number} \| .* \| \*\*([^*]*)\*\*", page, re.M)
        lead = re.search(
            rf"^## {number}\. .*?\*\*Claim\*\*.*?\*\*([^*]*)\*\*", page, re.M | re.S
        )
        assert row
        assert lead
        if row[1] != cell or lead[1].rstrip(".") != section:
            found.append(number)
    return found


def mean(table: Saved, row: str, column: str) -> float:
    """One cell of a claim's table."""
    return float(table["rows"][row][column]["mean"])


def of_claim(number: int) -> Pool:
    """A claim's tables and checks, with what follows from them."""
    found = claim(number)
    more = [*_columns(found["tables"]), *DERIVED.get(number, list)()]
    more += _intervals(fresh(number))
    return pool(found["tables"], found["checks"], more=more)


def _intervals(run: Saved | None) -> Iterator[Series]:
    """What the checks came to with fresh seeds, and the ends of the intervals."""
    for check in run["checks"] if run else ():
        value, half = check["value"], check["half_width_95"] or 0.0
        yield from (Series.of([value]), Series.of([value - half, value + half]))


def _columns(tables: Sequence[Saved]) -> Iterator[Series]:
    """The means and deviations of a column, from its lowest to its highest row."""
    for table in tables:
        rows = list(table["rows"].values())
        for column in rows[0]:
            cells = [row[column] for row in rows if column in row]
            for stat in ("mean", "spread"):
                yield Series.of(cell[stat] for cell in cells)


def _losses() -> Iterator[Series]:
    """Claim 2: what is lost without a memory and with both, and gained by them."""
    main, every = claim(2)["tables"]
    best = mean(main, "uncompressed", "accuracy")
    for row in main["rows"]:
        yield Series.of([best - mean(main, row, "accuracy")])
    harsh = [mean(every, row, "both - none") for row in every["rows"] if _harsh(row)]
    mild = ("gaussian_k 1 %, 5 %", "per_tensor, top_k 1 %, 5 %", "uniform 2 bits")
    yield Series.of(harsh)
    yield Series.of(mean(every, row, "both - none") for row in (*mild, "sign_l1"))
    ours = [row for row in every["rows"] if not row.endswith("ef21")][1:]
    lost = [mean(every, row, "uncompressed - both") for row in ours]
    kept = [loss for loss in lost if loss <= SPARED]
    yield from (Series.of([n]) for n in (len(kept), len(ours), max(kept)))
    spreads = [row["no memory"]["spread"] for row in every["rows"].values()]
    yield Series.of([max(spreads)])


def _harsh(row: str) -> bool:
    names = ("random_k", "gaia", "low_rank", "stc", "top_k 1", "dead_zone", "semi")
    return row.startswith((*names, "cyclic"))


def _gaps() -> Iterator[Series]:
    """Claim 3: what folding back gains, and how far policies are apart."""
    main, caps, _, every = claim(3)["tables"]
    for ours, wrong in COMPARED:
        yield _column(main, ours, "recall@100").less(_column(main, wrong, "recall@100"))
    for row in caps["rows"].values():
        yield Series.of([row["accuracy@300"]["mean"]])
    gaps = [row["gap"]["mean"] for row in every["rows"].values()]
    yield Series.of(gaps)
    below = [gap for gap in gaps if gap < ASKED]
    yield Series.of(sorted(below)[1:])
    for check in claim(3)["checks"]:  # the noise that policies may differ by
        if check["text"].startswith("lost "):
            yield Series.of([float(check["text"].rsplit(" ", 1)[1])])
    yield Series.of([len(gaps) - len(below)])
    yield Series.of([len(gaps)])


ASKED = 0.15  # of a gap in recall


def _column(table: Saved, row: str, column: str) -> Series:
    return Series.of(table["rows"][row][column]["values"])


def _catch_ups() -> Iterator[Series]:
    """Claim 4: how many there were."""
    main, _, every = claim(4)["tables"]
    sums = [
        sum(sum(row["patches"]["values"]) for row in table["rows"].values())
        for table in (main, every)
    ]
    yield from (Series.of([n]) for n in (*sums, sum(sums), len(every["rows"])))


def _exponential() -> Iterator[Series]:
    """Claim 5: what the exponential alone is worth."""
    rows = claim(5)["tables"][0]["rows"]
    pairs = zip(rows["DynSGD"].values(), rows["exponential"].values(), strict=True)
    yield Series.of(plain["mean"] / theirs["mean"] for plain, theirs in pairs)


def _selection() -> Iterator[Series]:
    """Claim 9: how many times as long others take for 10⁶ values and more."""
    rows = claim(9)["tables"][1]["rows"]
    large = [row for name, row in rows.items() if not name.startswith("100,000,")]
    for column in ("np.argpartition", "torch.topk"):
        yield Series.of(row[column]["mean"] for row in large)


CODECS = ("dead_zone 5 %, 10 %", "sign_l1", "top_k 1 %, 5 %")


def _eight_workers() -> Iterator[Series]:
    """Claim 16: rounds, bytes and speed-up with 8 workers."""
    plain, plain_bytes, momentum, momentum_bytes = claim(16)["tables"]
    eight = [row for row in plain["rows"] if row.endswith("K = 8")]
    for column in ("full precision", *CODECS):
        yield Series.of(
            mean(table, "one worker", column) / mean(table, row, column)
            for table in (plain, momentum)
            for row in eight
        )
    slower, fewer = (
        {
            column: [measure(tables, row, column) for tables in both for row in eight]
            for column in CODECS
        }
        for measure, both in (
            (_slower, (plain, momentum)),
            (mean, (plain_bytes, momentum_bytes)),
        )
    )
    for found in (slower, fewer):
        yield from map(Series.of, found.values())
        yield Series.of([*found[CODECS[0]], *found[CODECS[1]]])


def _slower(table: Saved, row: str, column: str) -> float:
    return mean(table, row, column) / mean(table, row, "full precision")


def _once() -> Iterator[Series]:
    """Claim 17: how much more of the loss biased compressors lose."""
    (table,) = claim(17)["tables"]
    best = mean(table, "qsgd 2 bits", "loss")
    biased = ("dead_zone 5 %", "stc 5 %", "uniform 2 bits")
    yield Series.of(mean(table, row, "loss") - best for row in biased)
    yield Series.of(mean(table, row, "loss") for row in biased)
    plain = [mean(table, "uncompressed", c) for c in ("accuracy", "loss")]
    ours = [mean(table, "qsgd 2 bits", c) for c in ("accuracy", "loss")]
    pairs = zip(plain, ours, strict=True)
    yield from (Series.of([abs(a - b)]) for a, b in pairs)


def _wide_area() -> Iterator[Series]:
    """Claim 20: how many times fewer bytes each threshold takes."""
    (table,) = claim(20)["tables"]
    full = mean(table, "full exchange, in step", "kB to 0.95")
    for row in table["rows"]:
        yield Series.of([full / mean(table, row, "kB to 0.95")])


def _searched() -> Iterator[Series]:
    """Claim 21: how far the search is below the best fixed thresholds."""
    checks = claim(21)["checks"]
    yield Series.of(c["value"] for c in checks if "below the best" in c["text"])


def _codes() -> Iterator[Series]:
    """Claim 13: the times by formula, and the largest error in 10⁻¹³."""
    for workers in SIZES:
        yield from (Series.of([seconds]) for seconds in formulas(workers))
    cells = claim(13)["tables"][0]["rows"]["cyclic"]
    yield Series.of([max(cells["largest error, 1e-15"]["values"]) / 100])


def _waits() -> Iterator[Series]:
    """Claim 14: the error before the model let clients wait for a version."""
    before = _runs(14)[-2]["tables"][0]["rows"]
    yield Series.of(before["4 clients"]["error"]["values"])


DERIVED: dict[int, Callable[[], Iterable[Series]]] = {
    2: _losses,
    3: _gaps,
    4: _catch_ups,
    5: _exponential,
    9: _selection,
    13: _codes,
    14: _waits,
    16: _eight_workers,
    17: _once,
    20: _wide_area,
    21: _searched,
}


def missed(number: int) -> dict[str, str]:
    """The checks of a claim that do not hold, each with why that is known."""
    checks = [check for check in claim(number)["checks"] if check["gates"]]
    fails = [check for check in checks if check.get("verdict") == Verdict.NOT]
    return {check["text"]: check["known"] for check in fails}


TABLES = {2: "2. Both memories", 3: "3. Exactly-once and rare classes"}
LABELS = {  # a row of the page, and how the rows of the file begin that it quotes
    "ef21 of top_k 5 %, 5 %": "top_k 5 %, 5 %, ef21",
    "sign: residual committed when sent": "sign, commit at send",
    "sign: round discarded": "sign, discard",
    "sign: folded back (ours)": "sign, fold back",
    "top-1 %: residual committed when sent": "top-1 %, commit at send",
    "top-1 %: round discarded": "top-1 %, discard",
    "top-1 %: folded back (ours)": "top-1 %, fold back",
    "uncompressed: FedAvg": "uncompressed, FedAvg",
    "uncompressed: folded back (ours)": "uncompressed, fold back",
    "top-1 % up, sign down": "top-1 % up, sign down: ",
    "sign up, top-5 % down": "sign up, top-5 % down: ",
}


def _rows() -> Iterator[Quote]:
    """The rows of the tables of claims 2 and 3, each with its own results alone."""
    for number, chapter in TABLES.items():
        tables = claim(number)["tables"]
        names = {name: name for table in tables for name in table["rows"]}
        for label, begins in {**names, **LABELS}.items():
            found = [
                row
                for table in tables
                for name, row in table["rows"].items()
                if name == begins or (begins[-1] == " " and name.startswith(begins))
            ]
            if found:
                yield Quote(f"{chapter} / ", f"{label} |", pool(found))


def quotes() -> Iterator[Quote]:
    """All of the page's."""
    yield from _rows()
    clothes = larger.claim(31)
    clothes_pool = pool(clothes["tables"], clothes["checks"])
    yield Quote("31. ", "On 8x8 clothes", clothes_pool, SETTINGS[31])
    yield Quote("35. ", "On 8x8 clothes", larger.of_claim(35), ())
    yield Quote(f"{SUMMARY} / #", "1 |", pool(), (r"\| 1 ",))  # counted by `make soak`
    for each in saved("claims")["claims"]:
        number = each["claim"]
        about = SETTINGS.get(number, ())
        row = (rf"\| {number} ", *about)
        yield Quote(f"{SUMMARY} / #", f"{number} |", of_claim(number), row)
        yield Quote(f"{number}. ", "", of_claim(number), about)

    said: tuple[str, ...] = (
        r"60,000 images|10,000\s+to test|three seeds|three blocks|\(8, 16 and 32",
    )
    said += (r"\b5 local steps of \d+|20 images|40 versions|106,122|80 rounds",)
    said += (r"skew [01]|T = [\d.]+|asked for \.02|\((?:9|2[14])\)|101,770",)
    said += (r"k = \.1 %|at 1 %",)
    for begins, number in LARGER.items():
        yield Quote(CHAPTER, begins, larger.of_claim(number), said)


def rows() -> set[str]:
    """Rows of tables that are made from the results."""
    return {*larger.normalised(), *larger.searched()}


CHAPTER = "Claims 9, 21 and 24 at a larger size"
LARGER = {
    "`python -m": 24,
    "Gaussian-k": 9,
    "Batch": 24,
    "Here": 24,
    "SkewScout": 21,
    "The search": 21,
}
SUMMARY = "What papers claim, and what we measured"
