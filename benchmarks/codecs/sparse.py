"""The cost of selection beside peers, and the cost of adding sparse messages."""

from collections.abc import Sequence

import numpy as np

from benchmarks.codecs import peers
from benchmarks.codecs.ours import CONFIGS, GAUSSIAN_K, TOP_K, our_codec
from benchmarks.codecs.targets import Target
from benchmarks.speed.measure import Figure, Work, in_turn
from fedcore import payloads
from fedcore.compressors import GaussianK
from fedcore.rng import Key
from fedcore.typing import Vector

KEPT = (1_000, 10_000, 100_000)


def selections(delta_D: Vector, rounds: int) -> dict[str, dict[str, Figure]]:
    """Milliseconds of selecting about k values, by the share that is kept."""
    dim, found = len(delta_D), {}
    for name in GAUSSIAN_K:
        config = CONFIGS[name]
        assert isinstance(config, GaussianK)
        k = max(1, int(config.ratio * dim))
        chosen = {name: our_codec(name, dim)}
        if name == GAUSSIAN_K[1]:
            chosen[TOP_K] = our_codec(TOP_K, dim)
        works: dict[str, Work] = {
            ours: lambda codec=codec: codec.encode(delta_D)  # type: ignore[misc]
            for ours, codec in chosen.items()
        }
        works["np.argpartition"] = lambda k=k: np.argpartition(  # type: ignore[misc]
            np.abs(delta_D), dim - k
        )
        theirs = peers.topk(delta_D, k)
        if theirs:
            works["torch.topk"] = theirs
        seconds = in_turn(works, rounds)
        found[name] = {work: time.times(1e3) for work, time in seconds.items()}
    return found


def selection_targets(found: dict[str, dict[str, Figure]], of: str) -> list[Target]:
    """How many times faster than the peers."""
    return [
        Target(f"{name} of {of}, faster than {peer}", ratio.median, 3, at_least=True)
        for name, each in found.items()
        for peer in ("np.argpartition", "torch.topk")
        if peer in each
        for ratio in [each[peer].over(each[name])]
    ]


Additions = dict[tuple[int, int], Figure]  # microseconds, by d and k


def additions(dims: Sequence[int], rounds: int) -> Additions:
    """What adding k values to d costs."""
    works = {
        (dim, k): _addition(dim, k) for dim in dims for k in KEPT if k <= dim // 10
    }
    seconds = in_turn({f"{d} {k}": work for (d, k), work in works.items()}, rounds)
    return {(d, k): seconds[f"{d} {k}"].times(1e6) for d, k in works}


def _addition(dim: int, k: int) -> Work:
    rng = Key.root(0).fold_in("codecs", "sparse", dim, k).generator()
    places_K = np.sort(rng.choice(dim, k, replace=False))
    values_K = rng.standard_normal(k, np.float32)
    data = payloads.pack(payloads.sparse_payload(dim, places_K, values_K))
    payload, out_D = payloads.unpack(data, (dim,)), np.zeros(dim, np.float32)
    return lambda: payloads.add(payload, out_D)


def addition_targets(found: Additions) -> list[Target]:
    """O(k): of ten times as many values it takes longer for the caches alone."""
    least = min((dim for dim, _ in found), default=0)
    return [
        Target(
            f"adding {k:,} values to {dim:,}, times that to {least:,}",
            found[dim, k].over(found[least, k]).median,
            3,
        )
        for dim, k in found
        if dim > least and (least, k) in found
    ]
