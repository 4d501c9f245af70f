"""The contract of compressors: what travels instead of a vector.

``encode`` takes the update, of finite values, and the client's memory, and returns the
message and the new memory. The caller keeps the memory, and decides when the new one
counts. A compressor without memory has the state ``None``. ``holds`` and
``brings_back`` say what the memory is, and how a verdict on a message settles it.

A **contraction** satisfies E‖C(x) - x‖² ≤ (1 - δ)‖x‖² with 0 < δ ≤ 1, an
**unbiased** compressor E C(x) = x and E‖C(x) - x‖² ≤ ω‖x‖². Error memories
accept contractions only: with ω ≥ 1 they diverge.

Some compressors use what the sender knows beside the vector (:class:`Context`): the
model that it is a change of, and what ``recall`` kept of its last message that was
decided on. A message is decoded without all this, so it does no harm if that is lost.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

from fedcore.config import Method, OneOf
from fedcore.params import ParamSpec
from fedcore.payloads import Declared, Layout, Payload
from fedcore.protocol import Verdict
from fedcore.rng import Key
from fedcore.typing import Array, State

Class = Literal["contraction", "unbiased", "neither"]
Holds = Literal["nothing", "work", "changes"]
Keys = Key | Sequence[Key]  # one key, or one for each row of a stack


@dataclass(frozen=True, slots=True)
class Context:
    """The facts that a sender knows when it makes a message, beside the vector."""

    version: int
    """The version of the model that the vector changes."""
    public_D: Array
    """That model, shape (D,), or (N, D) for a stack."""
    recalled: State = None
    """What was kept of the sender's last message that was decided on; another
    compressor may have kept it, if the settings have changed since."""
    rate: float = 1.0
    """The clients' learning rate at this version, as a share of their first one."""


class Compressor(NamedTuple):
    """Makes messages of vectors, and vectors of messages; inputs stay untouched."""

    init: Callable[[int], State]
    encode: Callable[[Array, State, Keys], tuple[Payload, State]]
    adapt: Callable[[Context], "Compressor"] | None = None
    """The compressor for the next message, where it depends on the context."""
    recall: Callable[[Payload], State] | None = None
    """What the next message needs of one that was decided on, which may be of another
    compressor. None: nothing."""
    limit: Callable[[Array, Array], Array] = lambda memory, delta: memory
    """The part of a memory that goes into the message of an update; the rest is
    dropped. Both have the shape (D,) or (N, D)."""

    def at(self, context: Callable[[], Context | None]) -> "Compressor":
        """Returns the next message's compressor; makes a context only if it is used."""
        known = self.adapt and context()
        return self.adapt(known) if self.adapt and known else self


class CompressorConfig(Method):
    """Settings of a compressor."""

    role: ClassVar[str] = "compressor"

    @property
    @abstractmethod
    def bias(self) -> Class:
        """Which of the two laws it obeys.

        One that obeys both is a contraction here, so that error memories accept it.
        """

    @property
    def adds_exactly(self) -> bool:
        """Whether its messages add up without rounding, so that a sum is as good."""
        return False

    @property
    def is_exact(self) -> bool:
        """Whether a message is all of the vector, in the format ``dense``."""
        return False

    @property
    def holds(self) -> Holds:
        """The content of a sender's memory.

        ``work`` was done and not sent yet, and must reach the model. ``changes`` are
        the difference to what the server has added up of this sender.
        """
        return "nothing"

    @property
    def trains_on_own_view(self) -> bool:
        """Whether a client begins its steps at W - e instead of W.

        That is the model as it would be if all that the client has not sent counted.
        """
        return False

    def brings_back(self, verdict: Verdict) -> bool:
        """Returns whether a verdict sends a message back into the sender's memory."""
        return verdict.returns_mass

    def shorter(self, share: float) -> Self | None:
        """Returns the settings for messages of about this share of their size.

        Args:
            share: above 0, at most 1.

        Returns:
            None where all messages have the same size.
        """
        return None

    @abstractmethod
    def list_formats(self, layout: Layout) -> Declared:
        """Returns the formats of messages about such a model, with those inside others.

        For each, the most values that decoding one message of it passes over; a
        server refuses what costs more (:meth:`fedcore.payloads.base.Reader.spend`).
        """

    def list_formats_for(self, spec: ParamSpec) -> Declared:
        """Returns the formats for a model whose tensors have names and shapes."""
        return self.list_formats(spec.sizes)

    @abstractmethod
    def build(self, layout: Layout) -> Compressor:
        """Returns the compressor for a model whose tensors have these sizes."""

    def build_for(self, spec: ParamSpec) -> Compressor:
        """Returns the compressor for a model whose tensors have names and shapes.

        Raises:
            ConfigError: the settings name what this model does not have.
        """
        return self.build(spec.sizes)


AnyCompressor = Annotated[CompressorConfig, OneOf()]


def stateless(
    encode: Callable[[Array, Keys], Payload],
    adapt: Callable[[Context], Compressor] | None = None,
    recall: Callable[[Payload], State] | None = None,
) -> Compressor:
    """Returns a compressor without memory."""
    return Compressor(
        lambda _: None,
        lambda delta_D, state, key: (encode(delta_D, key), state),
        adapt,
        recall,
    )


def fold_in(key: Keys, *names: str | int) -> Keys:
    """Returns a key of its own for these names, or one for each row of a stack."""
    if isinstance(key, Key):
        return key.fold_in(*names)
    return [each.fold_in(*names) for each in key]


def formats_inside(inner: CompressorConfig, outer: str) -> set[str]:
    """Returns the formats of the messages of a compressor inside another.

    Raises:
        ValueError: it has a memory, which belongs around the outer one.
    """
    if inner.holds != "nothing":
        raise ValueError(f"{inner.kind} inside {outer}: put the memory around it")
    return {*inner.list_formats((1,))}


def largest_of(several: Iterable[Declared]) -> Declared:
    """Returns these compressors' formats, each with its largest number of values."""
    most: dict[str, int] = {}
    for declared in several:
        for name, steps in declared.items():
            most[name] = max(steps, most.get(name, 0))
    return most


def count_kept(ratio: float, dim: int) -> int:
    """Returns K = max(1, ⌊ratio·d⌋), and 0 of an empty vector."""
    return min(dim, max(1, int(ratio * dim)))
