"""Paleo: the seconds of a training step from FLOPs, bytes and a few device numbers.

Qi, Sparks, Talwalkar, "Paleo: A Performance Model for Deep Neural Networks", ICLR 2017,
sections 3.2 and 3.3. A layer takes its FLOPs over what the device reaches of its peak
(the platform's percentage of peak, PPP), plus its bytes over the memory's bandwidth.
Workers exchange S bytes over links of bandwidth B.

We depart from the paper in three things. PPP scales the peak alone, and not the
bandwidth, since a measured bandwidth is what the platform reaches. Every operation may
cost a constant time beside its work: layers of federated models are small, and what
they take is mostly the time to start operations. The star is that of a federation: a
server of its own, with the bytes of its codecs in both directions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, log2
from typing import NamedTuple

from pydantic import Field

from fedcore.config import Config
from fedcore.typing import Seconds


class Device(Config):
    """A device's speed, given in a YAML file or measured."""

    name: str = "device"
    peak_gflops: float = Field(gt=0)
    """The most floating-point operations in a second, in 10⁹."""
    ppp: float = Field(default=1.0, gt=0, le=1)
    """The share of the peak that the platform reaches: Paleo's PPP."""
    memory_gb_per_second: float = Field(gt=0)
    """Bytes that the memory reads and writes in a second, in 10⁹."""
    call_microseconds: float = Field(default=0.0, ge=0)
    """What starting one operation takes beside its work; the paper's model has 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """The work of one layer in a step, for a batch."""

    name: str
    kind: str
    """What it computes, such as ``linear``."""
    flops_forward: int
    flops_backward: int
    bytes_read: int
    """In both passes together, as ``bytes_written``."""
    bytes_written: int
    parameters: int = 0
    """Those whose gradient is computed."""
    calls: int = 0
    """Operations that are started in both passes together."""

    @property
    def flops(self) -> int:
        """FLOPs of both passes."""
        return self.flops_forward + self.flops_backward

    @property
    def nbytes(self) -> int:
        """Bytes that are read and written."""
        return self.bytes_read + self.bytes_written


class LayerTime(NamedTuple):
    """The time of a layer in a step, by cause."""

    layer: Layer
    compute: Seconds
    memory: Seconds
    start: Seconds
    """For starting operations: our addition, 0 in the paper."""

    @property
    def total(self) -> Seconds:
        """The sum of the three."""
        return self.compute + self.memory + self.start


def layer_time(layer: Layer, device: Device) -> LayerTime:
    """Predicts what a layer takes: FLOPs / (peak · PPP) + bytes / bandwidth."""
    return LayerTime(
        layer,
        layer.flops / (1e9 * device.peak_gflops * device.ppp),
        layer.nbytes / (1e9 * device.memory_gb_per_second),
        1e-6 * device.call_microseconds * layer.calls,
    )


def step_time(layers: Sequence[Layer], device: Device) -> Seconds:
    """Predicts what a training step takes: the sum over its layers."""
    return sum(layer_time(layer, device).total for layer in layers)


def optimizer_layer(parameters: int) -> Layer:
    """Returns the work of w ← w - lr·g, as a row of its own; the paper has none."""
    return Layer(
        name="optimizer",
        kind="sgd",
        flops_forward=0,
        flops_backward=2 * parameters,
        bytes_read=4 * 2 * parameters,
        bytes_written=4 * parameters,
        calls=2,
    )


# ------------------------------------------------------------------------ communication


class Link(NamedTuple):
    """The network's bytes per second."""

    up: float
    """From a worker."""
    down: float
    """To a worker."""
    server: float
    """From and to the server, of all workers together; the star alone has one."""
    latency: Seconds = 0.0
    """Of one message; the paper has 0."""

    @property
    def between(self) -> float:
        """Bytes per second from one worker to another one: the slower direction."""
        return min(self.up, self.down)


class Exchange(NamedTuple):
    """The bytes that one exchange moves for each worker."""

    values: int
    """S: the uncompressed model, which the paper's schemes exchange."""
    up: int
    """An encoded update."""
    down: int
    """An encoded model."""


def one_to_all(workers: int, exchange: Exchange, link: Link) -> Seconds:
    """All send to one worker and it answers all: 2 (n - 1) S / B."""
    turns = 2 * (workers - 1)
    return turns * (exchange.values / link.between + link.latency)


def tree(workers: int, exchange: Exchange, link: Link) -> Seconds:
    """Sums go up a binary tree, and the result goes down: 2 ⌈log2 n⌉ S / B."""
    turns = 2 * ceil(log2(workers))
    return turns * (exchange.values / link.between + link.latency)


def butterfly(workers: int, exchange: Exchange, link: Link) -> Seconds:
    """Pairs exchange sums in rounds of growing distance: ⌈log2 n⌉ S / B."""
    turns = ceil(log2(workers))
    return turns * (exchange.values / link.between + link.latency)


def star(workers: int, exchange: Exchange, link: Link) -> Seconds:
    """A server sends the model and takes updates, with the bytes of the codecs.

    A worker's own link carries its model and its update, one after the other; the
    server's link carries those of all n workers. The slower of the two decides:
    max(down / B_down + up / B_up, n (down + up) / B_server) + 2 latencies.
    """
    own = exchange.down / link.down + exchange.up / link.up
    together = workers * (exchange.down + exchange.up) / link.server
    return max(own, together) + 2 * link.latency


Scheme = Callable[[int, Exchange, Link], Seconds]
SCHEMES: dict[str, Scheme] = {
    "star": star,
    "one_to_all": one_to_all,
    "tree": tree,
    "butterfly": butterfly,
}
"""Ways to exchange, by name; the first one is the federation's own."""


def round_time(
    compute: Seconds, communicate: Seconds, *, overlap: bool = False
) -> Seconds:
    """Predicts a round from its two parts.

    Args:
        compute: what a worker computes.
        communicate: what the exchange takes.
        overlap: whether both happen at once, which gives the paper's lower bound
            max(compute, communicate) in place of their sum.
    """
    return max(compute, communicate) if overlap else compute + communicate
