"""Claim 3: exactly-once protects minority classes from correlated dropout.

This project's claim (docs/protocol.md). shards(20, 2), 8 clients a round, 5 local
steps, B 16, lr .1, 300 rounds. Clients with more than 40 % of their images in the
classes 0, 1 and 2 lose each upload with probability .8. The wrong variants commit the
residual when they send (so that a lost message is lost for good), or discard the round.
Ours keeps the message until the server has decided: the client sends it again when it
next takes part; it is then too late for its round, is rejected, and is folded back into
the memory.

"Recall" is the mean recall of the classes 0, 1 and 2. Uncompressed with fold-back is
``error_feedback`` around ``identity``: the memory holds lost messages only. A control
is a server that still accepts late messages, as asynchronous recipes do. And every
registered contraction as the uplink, for 100 rounds and with three seeds.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from benchmarks.claims.every_codec import every_codec
from benchmarks.claims.lost_uploads import (
    POLICIES,
    CommitsAtSend,
    Outcome,
    Setting,
    any_upload_lost,
    rare_uploads_lost,
)
from benchmarks.claims.report import (
    Cell,
    Check,
    Report,
    Scale,
    Table,
    at_least,
    at_most,
    average,
    difference,
)
from fedcore.compressors import CompressorConfig, ErrorFeedback, Identity, SignL1, TopK

UNCAPPED = 1e30
CODECS: dict[str, CompressorConfig] = {"sign": SignL1(), "top-1 %": TopK(ratio=0.01)}


BEFORE = {
    "sign, commit at send": (".64", ".949"),
    "sign, discard": (),
    "sign, fold back": (".91", ".971"),
    "top-1 %, commit at send": (".70", ".946"),
    "top-1 %, discard": (".59", ".941"),
    "top-1 %, fold back": (".92", ".962"),
    "uncompressed, FedAvg": (".79", ".956"),
    "uncompressed, fold back": (".97", ".970"),
}
COMPARED = (  # ours, and the wrong variant
    ("sign, fold back", "sign, commit at send"),
    ("top-1 %, fold back", "top-1 %, commit at send"),
    ("uncompressed, fold back", "uncompressed, FedAvg"),
)
Rows = dict[str, list[Cell]]


def run(scale: Scale) -> Report:
    """Measures correlated loss, capped memories, and where memories gain nothing."""
    rounds = scale.of(300, 12)
    recall_at, checks = f"recall@{rounds // 3}", list[Check]()
    columns = (recall_at, f"accuracy@{rounds}", f"loss@{rounds}")

    main: Rows = {}
    for name, setting in _settings().items():
        found = [rare_uploads_lost(setting, rounds, seed) for seed in scale.seeds]
        main[name] = cells(found, BEFORE.get(name, ()))
    for ours, wrong in COMPARED:
        gap = difference(main[ours][0], main[wrong][0])
        text = f"{recall_at}: {ours} - {wrong}"
        checks.append(at_least(text, gap, 0.15))

    return Report(
        number=3,
        title="Exactly-once protects minority classes",
        source="this project",
        tables=[
            Table("(b) Rare uploads are lost with probability .8", columns, main),
            Table("(c) The cap κ", columns, _caps(scale, rounds, main, checks)),
            Table(
                "(d) All uploads are lost alike: 10 of 50 clients, dirichlet(.3), "
                "top-1 %",
                columns[1:],
                _independent(scale, rounds, checks),
            ),
            _every(scale, scale.of(100, 3), checks),
        ],
        checks=checks,
    )


def _settings() -> dict[str, Setting]:
    rows = {
        f"{codec}, {policy}": Setting(ErrorFeedback(inner=inner), trainee)
        for codec, inner in CODECS.items()
        for policy, trainee in POLICIES.items()
    }
    rows["uncompressed, FedAvg"] = Setting(Identity())
    rows["uncompressed, fold back"] = Setting(ErrorFeedback(inner=Identity()))
    late = Setting(ErrorFeedback(inner=SignL1()), staleness_limit=100)
    rows["sign, sent again and accepted late"] = late
    rows["uncompressed, sent again and accepted late"] = late._replace(
        uplink=Identity()
    )
    return rows


BEFORE_CAPS = {
    "sign": ((".48", ".856", ".735"), ("", ".937", ".22"), (".91", ".971")),
    "top-1 %": ((".62", ".878"), ("", ".936"), (".92", ".962")),
    "uncompressed": ((".75", ".947"), ("", ".970"), (".97", ".970")),
}


def _caps(scale: Scale, rounds: int, main: Rows, checks: list[Check]) -> Rows:
    """§1.9c: without the cap the memory bursts at .95; at .8 the cap costs little."""
    rows: Rows = {}
    for codec, inner in {**CODECS, "uncompressed": Identity()}.items():
        free = ErrorFeedback(inner=inner, cap=UNCAPPED)
        held = ErrorFeedback(inner=inner)
        settings = (
            Setting(free, probability=0.95),
            Setting(held, probability=0.95),
            Setting(free),
        )
        burst, saved, usual = (
            cells([rare_uploads_lost(one, rounds, seed) for seed in scale.seeds], old)
            for one, old in zip(settings, BEFORE_CAPS[codec], strict=True)
        )
        rows[f"{codec}, lost .95, no cap"] = burst
        rows[f"{codec}, lost .95, κ 30"] = saved
        rows[f"{codec}, lost .8, no cap"] = usual
        rows[f"{codec}, lost .8, κ 30"] = main[f"{codec}, fold back"]
        cost = difference(usual[1], main[f"{codec}, fold back"][1])
        gain = difference(saved[1], burst[1])
        checks += [
            at_least(f"{codec}, lost .95: accuracy that κ saves", gain, 0.0),
            at_most(f"{codec}, lost .8: accuracy that κ costs", cost, 0.01),
        ]
    return rows


BEFORE_INDEPENDENT = {
    0.3: (".958", ".960", ".960"),
    0.6: (".958", ".952", ".957"),
}


def _independent(scale: Scale, rounds: int, checks: list[Check]) -> Rows:
    """§1.9d: where loss does not depend on the data, the policy hardly matters."""
    rows: Rows = {}
    uplink = ErrorFeedback(inner=CODECS["top-1 %"])
    for probability, before in BEFORE_INDEPENDENT.items():
        accuracies = []
        for (name, trainee), old in zip(POLICIES.items(), before, strict=True):
            setting = Setting(uplink, trainee, probability)
            found = [any_upload_lost(setting, rounds, seed) for seed in scale.seeds]
            row = cells(found, ("", old))[1:]
            rows[f"lost {probability}, {name}"] = row
            accuracies.append(row[0])
        means = [cell.mean for cell in accuracies]
        noise = max(cell.spread for cell in accuracies)
        apart = max(means) - min(means)
        text = f"lost {probability}: how far policies are apart, beside the noise"
        checks.append(at_most(text, apart, noise, gates=False))
    return rows


def cells(found: Iterable[Outcome], before: Sequence[str]) -> list[Cell]:
    """Returns the cells of one row."""
    columns = list(zip(*found, strict=True))[:3]
    known = [*before, "", "", ""]
    return [Cell(column, known[i]) for i, column in enumerate(columns)]


def _every(scale: Scale, rounds: int, checks: list[Check]) -> Table:
    """(b) for every registered contraction: the recall at the end of a shorter run."""

    def recalls(setting: Setting) -> list[float]:
        return [rare_uploads_lost(setting, rounds, seed).late for seed in scale.seeds]

    rows: Rows = {}
    for name, codec in every_codec().items():
        wrong = recalls(Setting(codec.remembered, CommitsAtSend))
        ours = recalls(Setting(codec.remembered))
        gaps = [right - lost for right, lost in zip(ours, wrong, strict=True)]
        rows[name] = [Cell(wrong), Cell(ours), Cell(gaps)]
        gap = average(rows[name][2])
        checks += [
            at_least(f"{name}: fold back - commit at send", gap, 0.0),
            at_least(f"{name}: fold back - commit at send", gap, 0.15, gates=False),
        ]
    gaps = np.mean([cells[2].values for cells in rows.values()], axis=0)
    checks.append(at_least("all codecs: mean gap", average(Cell(gaps)), 0.15))
    title = f"(b) with every contraction up, {len(scale.seeds)} seeds: recall@{rounds}"
    return Table(title, ("commit at send", "fold back", "gap"), rows)
