"""A thousand clients that come back at a hundred different versions.

Their download is made once for each version that some client holds, and is the smallest
of replay, sum, overwritten values and full model. Its memory is compared with the bytes
of one model: it may not grow with the number of clients.
"""

from functools import partial

import numpy as np

from benchmarks.speed.measure import Figure, Scale, peak_megabytes, seconds_of
from benchmarks.speed.report import RATIO, Report, Row
from fedcore import payloads
from fedcore.compressors import CompressorConfig, DeadZone, TopK, Uniform
from fedcore.coordinator.published import Published
from fedcore.params import on_grid
from fedcore.patch import publish
from fedcore.protocol import Held
from fedcore.rng import Key
from fedcore.trees import Arrays

EPOCH = "0" * 16
MODEL = "one model"
DOWNLINKS: dict[str, CompressorConfig] = {
    "top_k 1 %": TopK(ratio=0.01),
    "top_k .1 %": TopK(ratio=0.001),
    "dead_zone 1 %": DeadZone(ratio=0.01),
    "dead_zone .1 %": DeadZone(ratio=0.001),
    "uniform, 8 bits": Uniform(),
}


def run(scale: Scale) -> Report:
    """Serves all of them, under several compressors."""
    dim, versions = scale.of(1_000_000, 10_000), scale.of(100, 10)
    clients = scale.of(1000, 50)
    model = {"peak MB": Figure([4e-6 * dim]), RATIO: Figure([1.0])}
    rows = [Row(MODEL, {"kB a pull": Figure([4e-3 * dim]), **model}, MODEL)]
    for name, downlink in DOWNLINKS.items():
        published = _history(downlink, dim, versions)
        held = [_held(published, number % versions) for number in range(clients)]
        seconds = seconds_of(partial(_serve, _anew(published), held))
        peak = Figure([peak_megabytes(partial(_serve, _anew(published), held))])
        figures = {
            "ms a pull": Figure([1e3 * seconds / clients]),
            "kB a pull": Figure([_serve(published, held) / clients / 1e3]),
            "peak MB": peak,
            RATIO: peak.times(1 / (4e-6 * dim)),
        }
        rows.append(Row(name, figures, MODEL))
    return Report(
        name="catch_up",
        title=f"{clients} clients catch up from {versions} versions of {dim:,} values",
        groups={"downlink": rows},
        remarks=("peak MB: beyond the model and its last versions, of all pulls",),
    )


def _history(downlink: CompressorConfig, dim: int, versions: int) -> Published:
    """A model that was published so often; its updates have heavy tails."""
    rng = Key.root(0).fold_in("catch-up").generator()
    exact_D = on_grid(rng.standard_normal(dim, np.float32) / np.float32(10))
    published = Published(exact_D, epoch=EPOCH, layout=(dim,))
    encode = downlink.build((dim,)).encode
    for version in range(versions):
        moved_D = (rng.standard_t(3, dim) / 1000).astype(np.float32)
        exact_D = np.subtract(exact_D, moved_D)
        key = Key.root(version)
        message, _ = encode(published.public_D - exact_D, None, key)
        public_D = publish(published.public_D, message)
        published.publish(public_D, payloads.pack(message), message)
    return published


def _held(published: Published, version: int) -> Held:
    return Held(EPOCH, version, published.ring[version].digest)


def _anew(published: Published) -> Published:
    """The same model and past, with no patch made yet."""
    anew = Published(published.public_D, epoch=EPOCH, layout=published.layout)
    arrays: Arrays = {}
    anew.load(published.dump(arrays), arrays)
    return anew


def _serve(published: Published, held: list[Held]) -> int:
    """Bytes that the clients are sent."""
    return sum(published.patch(each).nbytes for each in held)
