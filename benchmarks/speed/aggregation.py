"""From the bytes of a hundred updates to their mean.

Dense updates are compared with copying their bytes into one vector, which is the
minimum of work, and with the textbook's mean of a stack; sparse ones with NumPy's two
ways of adding at indices. The peers get arrays that are decoded already.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.speed.measure import Figure, Scale, Work, in_turn, peak_megabytes
from benchmarks.speed.report import RATIO, Report, Row
from fedcore import payloads
from fedcore.aggregators import Contribution, WeightedMean
from fedcore.arrays import top_k_indices
from fedcore.payloads import dense_payload, sparse_payload
from fedcore.rng import Key
from fedcore.typing import Bytes, Vector

KEPT = 0.01


class Updates(NamedTuple):
    """So many updates as they came from the wire."""

    dim: int
    dense: list[bytes]
    sparse: list[bytes]

    @classmethod
    def draw(cls, count: int, dim: int) -> "Updates":
        """Normal values; the sparse ones keep the largest of them."""
        rng = Key.root(0).fold_in("speed").generator()
        dense, sparse = [], []
        for _ in range(count):
            values_D = rng.standard_normal(dim, np.float32)
            kept_K = top_k_indices(np.abs(values_D), max(1, round(KEPT * dim)))
            dense.append(payloads.pack(dense_payload(values_D)))
            sparse.append(payloads.pack(sparse_payload(dim, kept_K, values_D[kept_K])))
        return cls(dim, dense, sparse)


def run(scale: Scale) -> Report:
    """Times every way, and finds its peak of memory."""
    count, dim = scale.of(100, 4), scale.of(1_000_000, 10_000)
    updates = Updates.draw(count, dim)
    groups = {
        _title("dense", updates.dense): _compare(_dense(updates), count, scale),
        _title("top-k 1 %", updates.sparse): _compare(_sparse(updates), count, scale),
    }
    return Report(
        name="aggregation",
        title=f"aggregation: {count} updates of {dim:,} float32 values",
        groups=groups,
        remarks=("peak MB: beyond the updates themselves, of the whole aggregation",),
    )


def _title(name: str, packed: list[bytes]) -> str:
    return f"{name}, {len(packed[0]) / 1e6:.3g} MB each"


def _compare(works: dict[str, Work], count: int, scale: Scale) -> list[Row]:
    """The first work is what all ratios are to."""
    seconds, floor = in_turn(works, scale.rounds), next(iter(works))
    return [
        Row(
            name,
            {
                "ms an update": seconds[name].times(1e3 / count),
                "peak MB": Figure([peak_megabytes(work)]),
                RATIO: seconds[name].over(seconds[floor]),
            },
            floor,
        )
        for name, work in works.items()
    ]


def _dense(updates: Updates) -> dict[str, Work]:
    layout = (updates.dim,)
    decoded = [payloads.decode(payloads.unpack(b, layout)) for b in updates.dense]
    into_D = np.empty(updates.dim, np.float32)

    def copy() -> None:
        for values_D in decoded:
            np.copyto(into_D, values_D)

    return {
        "memcpy": copy,
        "from the wire": lambda: aggregate(updates.dense, updates.dim),
        "from the wire, by samples": lambda: aggregate(updates.dense, updates.dim, 37),
        "np.mean(np.stack(...))": lambda: np.mean(np.stack(decoded), axis=0),
    }


def _sparse(updates: Updates) -> dict[str, Work]:
    layout = (updates.dim,)
    entries = [payloads.unpack(packed, layout).arrays for packed in updates.sparse]

    def fancy() -> Vector:
        sum_D = np.zeros(updates.dim, np.float32)
        for each in entries:
            sum_D[each["indices"]] += each["values"]
        return sum_D / np.float32(len(entries))

    def add_at() -> Vector:
        sum_D = np.zeros(updates.dim, np.float32)
        for each in entries:
            np.add.at(sum_D, each["indices"], each["values"])
        return sum_D / np.float32(len(entries))

    return {
        "out[indices] += values": fancy,
        "np.add.at": add_at,
        "from the wire": lambda: aggregate(updates.sparse, updates.dim),
        "from the wire, by samples": lambda: aggregate(updates.sparse, updates.dim, 37),
    }


def aggregate(packed: Sequence[Bytes], dim: int, samples: float = 1.0) -> Vector:
    """What the server does between an update's arrival and the step."""
    mean, layout = WeightedMean().build(), (dim,)
    state = mean.init(dim)
    for data in packed:
        payload = payloads.unpack(data, layout)
        state = mean.accumulate(state, Contribution(payload, 1.0, samples, None))
    return mean.finalize(state, samples * len(packed))
