"""Claim 4: a client that missed messages catches up to the server's very bytes.

This project's claim (docs/protocol.md): error memories in both directions need one
common reference, and float addition is not associative. 20 clients, some of which are
rarely present, four a version, real float32 training. A client gets the missed messages
as a replay, as values to overwrite, or as the full model, whichever is smallest. After
each catch-up all bytes are compared. The same with every registered contraction on the
downlink, in shorter runs with two seeds.

The negative control sends one summed delta instead of the messages of 50 versions,
summed in float32 and in float64.
"""

from typing import NamedTuple

import numpy as np

from benchmarks.claims.every_codec import every_codec
from benchmarks.claims.report import (
    Cell,
    Check,
    Report,
    Scale,
    Table,
    at_least,
    at_most,
    average,
)
from benchmarks.claims.setup import Federation, digits, in_rounds
from fedcore import payloads
from fedcore.compressors import (
    CompressorConfig,
    ErrorFeedback,
    RandomK,
    SignL1,
    TopK,
    Uniform,
)
from fedcore.partitions import shards
from fedcore.rng import Key
from fedcore.typing import Vector

CLIENTS, COHORT, SPAN = 20, 4, 50
FEW = 2  # seeds for the table of all codecs
DOWNLINKS: dict[str, CompressorConfig] = {
    "sign": SignL1(),
    "top-5 %": TopK(ratio=0.05),
    "random-5 %": RandomK(ratio=0.05),
    "8 bits": Uniform(bits=8),
}


class Caught(NamedTuple):
    """How clients caught up in one run, and what a sum would have given."""

    catch_ups: float
    replays: float
    overwrites: float
    fulls: float
    most_missed: float
    mismatches: float
    summed_32: float  # share of the coordinates that differ
    summed_64: float


def run(scale: Scale) -> Report:
    """Every downlink compressor, catch-ups counted and compared."""
    versions, span = scale.of(300, 24), scale.of(SPAN, 12)
    found = {
        name: [train(downlink, versions, span, seed) for seed in scale.seeds]
        for name, downlink in DOWNLINKS.items()
    }
    columns = {name: list(zip(*runs, strict=True)) for name, runs in found.items()}
    caught = {name: list(map(Cell, all_[:6])) for name, all_ in columns.items()}
    summed = {name: list(map(Cell, all_[6:])) for name, all_ in columns.items()}
    summed["sign"] = [Cell(cell.values, ".81") for cell in summed["sign"]]
    every = _every(scale.few(FEW), scale.of(150, 13), span)
    kinds = [sum(cells[i].mean for cells in caught.values()) for i in (1, 2, 3)]
    checks: list[Check] = [
        at_most(
            "catch-ups that lead to other bytes than the server's",
            sum(sum(cells[5].values) for cells in caught.values()),
            0,
        ),
        at_most(
            "the same with every contraction",
            sum(sum(cells[4].values) for cells in every.rows.values()),
            0,
        ),
        at_least("patches of the rarest kind, per seed", min(kinds), 1),
        at_least(
            "control: a sum of sign messages differs in a share of the coordinates",
            average(summed["sign"][0]),
            0.5,
        ),
    ]
    return Report(
        number=4,
        title="One common reference, bit for bit",
        source="this project",
        tables=[
            Table(
                f"Catching up during {versions} versions, by downlink",
                ("patches", "replay", "overwrite", "full", "most missed", "mismatches"),
                caught,
            ),
            Table(
                f"Control: one sum of {span} messages; share of coordinates that "
                "differ",
                ("summed in float32", "in float64"),
                summed,
            ),
            every,
        ],
        checks=checks,
    )


def _every(scale: Scale, versions: int, span: int) -> Table:
    """How one catches up with each registered contraction on the downlink."""
    rows: dict[str, list[Cell]] = {}
    for name, codec in every_codec().items():
        found = [train(codec.downlink, versions, span, seed) for seed in scale.seeds]
        columns = list(zip(*found, strict=True))
        rows[name] = [Cell(columns[place]) for place in (0, 1, 2, 3, 5, 6)]
    return Table(
        f"Every contraction, {versions} versions, {len(scale.seeds)} seeds",
        ("patches", "replay", "overwrite", "full", "mismatches", "one sum differs"),
        rows,
    )


def train(downlink: CompressorConfig, versions: int, span: int, seed: int) -> Caught:
    """Trains, and compares the bytes of a client whenever it has caught up."""
    parts = shards(digits("train")[1], clients=CLIENTS, seed=seed)
    uplink = ErrorFeedback(inner=TopK(ratio=0.01))
    federation = Federation(in_rounds(COHORT, uplink, downlink), parts, seed)
    published = federation.coordinator.state.published
    presence = 1.0 / np.arange(1, CLIENTS + 1)  # the last client is there now and then
    rng = Key.root(seed).fold_in("misses").generator()
    models, missed, kinds, mismatches = [published.public_D], [0], list[str](), 0

    def catch_up(client: int) -> int:
        held = federation.trainees[client].state.held
        assert held is not None
        federation.pull(client)
        assert federation.last_reply is not None
        kinds.append(federation.last_reply.patch.kind)
        missed.append(published.version - held.version)
        return int(not _same_bytes(federation, client))

    for _ in range(versions):
        cohort = rng.choice(CLIENTS, COHORT, replace=False, p=presence / presence.sum())
        for client in cohort.tolist():
            mismatches += catch_up(client)
        for client in cohort.tolist():
            federation.train(client)
            federation.push(client)
        models.append(published.public_D)
    mismatches += sum(catch_up(client) for client in range(CLIENTS))
    return Caught(
        catch_ups=len(kinds) - kinds.count("none"),
        replays=kinds.count("replay"),
        overwrites=kinds.count("overwrite"),
        fulls=kinds.count("full"),
        most_missed=max(missed),
        mismatches=mismatches,
        summed_32=_summed(federation, models, span, np.float32),
        summed_64=_summed(federation, models, span, np.float64),
    )


def _same_bytes(federation: Federation, client: int) -> bool:
    state, published = federation.trainees[client].state, federation.coordinator.state
    assert state.held is not None
    assert state.public_D is not None
    same = state.public_D.tobytes() == published.published.public_D.tobytes()
    return same and state.held.digest == published.published.digest


def _summed(
    federation: Federation, models: list[Vector], span: int, dtype: type[np.floating]
) -> float:
    """The share of coordinates in which W - Σp is not what the messages in order give.

    The mean over all disjoint spans of so many versions.
    """
    layout, shares = federation.model.spec.sizes, []
    for start in range(0, len(federation.steps) - span + 1, span):
        sum_D = np.zeros(federation.model.spec.dim, dtype)
        for step in federation.steps[start : start + span]:
            sum_D += payloads.decode(payloads.unpack(step.payload, layout))
        jumped_D = (models[start] - sum_D).astype(np.float32)
        shares.append(float(np.mean(jumped_D != models[start + span])))
    return float(np.mean(shares))
