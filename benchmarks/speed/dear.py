"""The cost of the most expensive message of each format for the core thread.

The messages are as cheap to send as possible: they describe every value of the model,
and are deflated. A coordinator handles each of them twice: as its bytes, which it then
reads itself, and as a server passes it on, read beside the core thread.
"""

import time
from collections.abc import Callable, Mapping

import numpy as np

from benchmarks.speed.measure import Figure, Scale
from benchmarks.speed.report import RATIO, Report, Row
from fedcore import payloads
from fedcore.compressors import ErrorFeedback, TopK
from fedcore.coordinator import Coordinator
from fedcore.coordinator.events import ClientEnrolled, Opened, UpdatePushed
from fedcore.coordinator.rounds import open_update
from fedcore.params import ParamSpec, content_digest
from fedcore.payloads import Payload, Term
from fedcore.payloads.rotated import blocks
from fedcore.protocol import NOTHING_SETTLED, ModelName, Push
from fedcore.recipes import FedBuff
from fedcore.typing import Seconds, Vector

EPOCH = "0" * 16
ITSELF, BESIDE = "read on the core thread", "read beside it"


def run(scale: Scale) -> Report:
    """Handles each message both ways, in turn."""
    side = scale.of(3162, 100)
    spec = ParamSpec.of({"w": np.zeros((side, side), np.float32)})
    declared = ErrorFeedback(inner=TopK(ratio=0.01)).list_formats_for(spec)
    groups = {}
    for name, make in _dearest(side).items():
        data = payloads.pack(make())
        opened = open_update(data, spec)
        rounds = scale.of(min(scale.rounds, 3), 1)
        costs: dict[str, list[Seconds]] = {ITSELF: [], BESIDE: [], "refused": []}
        for _ in range(rounds):
            costs[ITSELF].append(_handled(spec, data, None))
            costs[BESIDE].append(_handled(spec, data, opened))
            began = time.thread_time()
            open_update(data, spec, declared)
            costs["refused"].append(time.thread_time() - began)
        itself, beside = Figure(costs[ITSELF]), Figure(costs[BESIDE])
        refused = Figure(costs["refused"]).times(1e3)
        size = Figure([len(data) / 1e3])
        groups[name] = [
            Row(
                ITSELF,
                {"kB": size, "core ms": itself.times(1e3), RATIO: itself.over(itself)},
                ITSELF,
            ),
            Row(
                BESIDE,
                {
                    "kB": size,
                    "core ms": beside.times(1e3),
                    "refused ms": refused,
                    RATIO: beside.over(itself),
                },
                ITSELF,
            ),
        ]
    return Report(
        name="dear",
        title=f"dear: the dearest messages about {spec.dim:,} values",
        groups=groups,
        remarks=(
            "core ms: CPU time of the core thread, to judge a message and to add it",
            "refused ms: where the uplink is top-k 1 %, beside the core thread",
        ),
    )


def _dearest(side: int) -> Mapping[str, Callable[[], Payload]]:
    dim = side * side
    places = np.arange(dim, dtype=np.int64)
    ones_D, half_K = np.ones(dim, np.float32), places[::2]
    wide = np.full(dim, 1 << 16, np.int32)  # seventeen bits each, to be put together
    seed = np.array(7, np.uint64)
    signs = payloads.sign_payload(np.ones(dim, bool), np.ones(1, np.float32), (dim,))
    return {
        "dense": lambda: payloads.dense_payload(ones_D),
        "sparse": lambda: payloads.sparse_payload(dim, half_K, ones_D[::2]),
        "levels": lambda: payloads.levels_payload(
            dim, places, wide, np.ones(1, np.float32), (dim,)
        ),
        "seeded": lambda: payloads.seeded_payload(dim, seed, ones_D),
        "sign": lambda: signs,
        "natural": lambda: payloads.natural_payload(_powers(dim)),
        "block": lambda: payloads.block_payload(dim, 0, signs),
        "rotated": lambda: payloads.rotated_payload(dim, seed, _padded(dim)),
        "low_rank": lambda: payloads.low_rank_payload(
            np.ones((64, side), np.float32), np.ones((64, side), np.float32)
        ),
        "semi_discrete": lambda: _outer_products(side),
    }


def _powers(dim: int) -> Vector:
    powers: Vector = np.ldexp(np.float32(1), np.arange(dim) % 200 - 100)
    return powers.astype(np.float32)


def _padded(dim: int) -> Payload:
    size = sum(blocks(dim))
    return payloads.sign_payload(np.ones(size, bool), np.ones(1, np.float32), (size,))


def _outer_products(side: int) -> Payload:
    ones = np.ones(side, np.int8)
    terms = [Term(0, 0, ones, ones)] * (side * side // (2 * side - 1))
    return payloads.semi_discrete_payload((side * side,), terms, 0)


def _handled(spec: ParamSpec, data: bytes, opened: Opened | None) -> Seconds:
    """CPU time of a coordinator that takes this update."""
    config = FedBuff(buffer=2)
    coordinator = Coordinator(
        config.build(spec), np.zeros(spec.dim, np.float32), epoch=EPOCH
    )
    coordinator.handle(ClientEnrolled(at=0.0, cid="a", name="a"))
    push = Push(
        cid="a",
        epoch=EPOCH,
        seq=1,
        base=ModelName(EPOCH, 0),
        payload=data,
        digest=content_digest(data),
        settled=NOTHING_SETTLED,
        samples=1,
    )
    began = time.thread_time()
    coordinator.handle(UpdatePushed(at=1.0, push=push, opened=opened))
    return time.thread_time() - began
