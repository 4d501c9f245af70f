"""A model is one flat float32 vector, and a spec that knows its tensors."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from fedcore.errors import ModelError, SpecMismatchError
from fedcore.merging import PARAMETER, Merge, in_moments, in_variances
from fedcore.text import is_printable
from fedcore.typing import Vector

LARGEST = float(np.finfo(np.float32).max)
_OF_FILES = "__metadata__"  # what safetensors keeps a name for
Tensors = Mapping[str, npt.NDArray[np.generic]]


class Rest(NamedTuple):
    """The parts of a checkpoint that are not trained: tensors, and texts about it."""

    frozen: Tensors  # weights that are not trained, and buffers, of any type
    tied: Mapping[str, str]  # second names of trained tensors, and their first ones
    about: Mapping[str, str] = MappingProxyType({})
    """Texts by name that go with the model, such as :data:`ADAPTER`."""


NO_REST = Rest({}, {})
ADAPTER = "adapter"
"""What PEFT must know to load the model as an adapter: JSON with ``config``, as in its
file ``adapter_config.json``, and ``names``, from our names of tensors to PEFT's."""


@dataclass(frozen=True)
class TensorSpec:
    """Name and shape of one tensor, and where it lies in the flat vector."""

    name: str
    shape: tuple[int, ...]
    offset: int
    merge: Merge = PARAMETER

    @property
    def size(self) -> int:
        """The number of its values."""
        return math.prod(self.shape)

    @property
    def slice(self) -> slice:
        """Its part of the flat vector."""
        return slice(self.offset, self.offset + self.size)


@dataclass(frozen=True)
class ParamSpec:
    """The tensors of a model in order, and the fingerprint of what stays frozen.

    Two parties may share updates only if their specs are equal. Buffers that are
    averaged, such as batch statistics, follow the parameters in the flat vector.
    """

    tensors: tuple[TensorSpec, ...]
    frozen: str = ""  # a digest of the weights that are not trained
    local: tuple[TensorSpec, ...] = ()
    """Tensors that never leave a client, buffers first; they are in no flat vector."""
    digests: tuple[tuple[str, str], ...] = ()
    """Short digests of what is behind ``frozen``, to name a tensor that differs."""

    @classmethod
    def of(
        cls,
        tensors: Tensors,
        *,
        frozen: str = "",
        merges: Mapping[str, Merge] | None = None,
        local: tuple[TensorSpec, ...] = (),
        digests: tuple[tuple[str, str], ...] = (),
    ) -> Self:
        """Returns the spec of named arrays, in their order.

        Args:
            tensors: parameters, and behind them buffers that are averaged.
            frozen: the fingerprint of what is not trained.
            merges: how buffers are merged, by name.
            local: what stays on the clients.
            digests: of each tensor that is not trained, by name.
        """
        if not tensors:
            raise ModelError("the model has no tensors to train")
        for name in chain(tensors, (t.name for t in local), (n for n, _ in digests)):
            _check_name(name)
        for name, array in tensors.items():
            if not np.issubdtype(np.asarray(array).dtype, np.floating):
                raise ModelError(
                    f"tensor {name!r} has dtype {np.asarray(array).dtype}; "
                    "only floating-point tensors are trained"
                )
        known = merges or {}
        specs = place_tensors(
            (name, np.shape(array), known.get(name, PARAMETER))
            for name, array in tensors.items()
        )
        if not sum(each.size for each in specs):
            raise ModelError("the model has no values to train: its tensors are empty")
        return cls(specs, frozen, local, digests)

    @cached_property
    def dim(self) -> int:
        """The number of values of the flat vector."""
        return sum(tensor.size for tensor in self.tensors)

    @cached_property
    def buffers(self) -> slice | None:
        """The averaged buffers' part of the flat vector; None: there are none."""
        start = sum(t.size for t in self.tensors if t.merge == PARAMETER)
        return slice(start, self.dim) if start < self.dim else None

    @cached_property
    def whole(self) -> "ParamSpec":
        """The spec of a client's whole model: the flat vector, then what is local."""
        local = (replace(t, offset=self.dim + t.offset) for t in self.local)
        return replace(self, tensors=(*self.tensors, *local), local=())

    @cached_property
    def in_training(self) -> slice | None:
        """The buffers' part of a client's whole model; None: there are none."""
        end = self.dim + sum(t.size for t in self.local if t.merge != PARAMETER)
        start = self.dim if self.buffers is None else self.buffers.start
        return slice(start, end) if start < end else None

    @cached_property
    def moments(self) -> tuple[tuple[slice, slice], ...]:
        """The places of means in the flat vector, and of second moments around zero.

        They stand for running means and variances; see :mod:`fedcore.merging`.
        """
        places = {tensor.name: tensor.slice for tensor in self.tensors}
        return tuple(
            (places[tensor.merge.mean], tensor.slice)
            for tensor in self.tensors
            if tensor.merge.mean
        )

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Values per tensor: the layout that per-tensor codecs need."""
        return tuple(tensor.size for tensor in self.tensors)

    def with_companions(self, companions: Sequence[str]) -> "ParamSpec":
        """Returns the spec of this vector followed by others of the same shape.

        Args:
            companions: their names; tensor ``w`` of ``control`` is ``control/w``.

        Raises:
            ModelError: a tensor of the model has such a name.
        """
        if not companions:
            return self
        tensors = list(self.tensors)
        for place, name in enumerate(companions, 1):
            start = place * self.dim
            tensors += [
                TensorSpec(f"{name}/{each.name}", each.shape, start + each.offset)
                for each in self.tensors
            ]
        names = Counter(each.name for each in tensors)
        if twice := [name for name, times in names.items() if times > 1]:
            raise ModelError(
                f"tensor {twice[0]!r} has the name of one that travels beside the "
                "model; give it another one"
            )
        return ParamSpec(tuple(tensors), self.frozen)

    def extend(self, model_D: Vector) -> Vector:
        """Returns a vector that begins with ``model_D``; the rest is zero."""
        if len(model_D) == self.dim:
            return model_D
        whole_D = np.zeros(self.dim, np.float32)
        whole_D[: len(model_D)] = model_D
        return whole_D

    def flatten(self, tensors: Tensors, whose: str = "these arrays") -> Vector:
        """Returns the flat vector of named arrays, whatever their order.

        Args:
            tensors: the arrays.
            whose: what they are, for messages.

        Raises:
            SpecMismatchError: a tensor is missing, unknown or of another shape.
            ModelError: a tensor holds something else than floating-point numbers.
        """
        if not self._fits(tensors):
            self._require_tensors(tensors, whose)
        flat = np.empty(self.dim, np.float32)
        for spec in self.tensors:
            flat[spec.slice] = np.asarray(tensors[spec.name], np.float32).reshape(-1)
        in_moments(flat, self.moments)
        return flat

    def _fits(self, tensors: Tensors) -> bool:
        """Checks fast, for the usual case, whether these are arrays of this spec."""
        if not isinstance(tensors, Mapping) or len(tensors) != len(self.tensors):
            return False
        for spec in self.tensors:
            array = tensors.get(spec.name)
            if not isinstance(array, np.ndarray) or array.shape != spec.shape:
                return False
            if array.dtype.kind != "f":
                return False
        return True

    def _require_tensors(self, tensors: Tensors, whose: str) -> None:
        """Checks what named arrays are, and says what is wrong; see :meth:`flatten`."""
        if not isinstance(tensors, Mapping):
            found = type(tensors).__name__
            raise SpecMismatchError(f"{whose}: expected arrays by name, got {found}")
        merges = {tensor.name: tensor.merge for tensor in self.tensors}
        ordered = {name: tensors[name] for name in merges if name in tensors}
        if not ordered:
            raise SpecMismatchError(
                f"{whose}: tensor {next(iter(merges))!r} is missing"
            )
        theirs = ParamSpec.of(
            {**ordered, **tensors}, frozen=self.frozen, merges=merges, local=self.local
        )
        self.require(theirs, whose)

    def unflatten(self, flat_D: Vector) -> dict[str, Vector]:
        """Returns named views of the flat vector, or of one that begins with it.

        Running variances are copies, as the vector holds their second moments.
        """
        if self.moments:
            flat_D = flat_D[: self.dim].copy()
            in_variances(flat_D, self.moments)
        return {
            spec.name: flat_D[spec.slice].reshape(spec.shape) for spec in self.tensors
        }

    def beyond(self, flat_D: Vector, limit: float = LARGEST) -> str | None:
        """Returns the first tensor with a magnitude above the limit or NaN, or None."""
        for spec in self.tensors:
            values_n = flat_D[spec.slice]  # whose magnitudes would be a copy
            if spec.size and not (
                np.max(values_n) <= limit and np.min(values_n) >= -limit
            ):
                return spec.name
        return None

    def require_finite(self, flat_D: Vector, whose: str) -> None:
        """Checks that a model can be trained and averaged.

        Args:
            flat_D: the model, shape (D,).
            whose: what it is, for the message.

        Raises:
            ModelError: a value is NaN or infinite; the message names its tensor.
        """
        name = self.beyond(flat_D)
        if name is not None:
            raise ModelError(
                f"{whose}: tensor {name!r} holds NaN or an infinite value; expected "
                "finite numbers"
            )

    def require(self, other: "ParamSpec", whose: str) -> None:
        """Checks that another spec is equal.

        Args:
            other: the other spec.
            whose: what it belongs to, for the message.

        Raises:
            SpecMismatchError: it differs; the message names the first difference.
        """
        difference = self.first_difference(other)
        if difference:
            raise SpecMismatchError(
                f"{whose} and the federation's model differ: {difference}"
            )

    def first_difference(self, other: "ParamSpec") -> str | None:
        """Returns the first difference as a sentence, or None."""
        for mine, theirs in zip(self.tensors, other.tensors, strict=False):
            if mine.name != theirs.name:
                found = f"expected tensor {mine.name!r}, found {theirs.name!r}"
                ours, others = ({t.name for t in s.tensors} for s in (self, other))
                if ours == others:
                    found += (
                        "; they are the same in another order (fedclient model --from "
                        "puts a checkpoint into the order of the app)"
                    )
                return found
            if mine.shape != theirs.shape:
                return (
                    f"tensor {mine.name!r} should have shape {list(mine.shape)}, "
                    f"has {list(theirs.shape)}"
                )
            if mine.merge != theirs.merge:
                return (
                    f"tensor {mine.name!r} should be {mine.merge.words}, is "
                    f"{theirs.merge.words}"
                )
        if len(self.tensors) != len(other.tensors):
            longer = max(self.tensors, other.tensors, key=len)
            extra = longer[min(len(self.tensors), len(other.tensors))].name
            side = (
                "is missing"
                if longer is self.tensors
                else "is not in the federation's model"
            )
            return f"tensor {extra!r} {side}"
        mine_here = [(t.name, t.shape) for t in self.local]
        theirs_here = [(t.name, t.shape) for t in other.local]
        if mine_here != theirs_here:
            names = [name for name, _ in mine_here], [name for name, _ in theirs_here]
            return "{} should stay on the clients, but {} would".format(
                *(", ".join(which) or "nothing" for which in names)
            )
        if self.frozen != other.frozen:
            return self._frozen_difference(other)
        return None

    def _frozen_difference(self, other: "ParamSpec") -> str:
        both = zip(self.digests, other.digests, strict=False)
        names = [mine[0] for mine, theirs in both if mine != theirs]
        where = f": tensor {names[0]!r} differs" if names else ""
        more = f", and {len(names) - 1} more" if names[1:] else ""
        return f"the frozen weights are not the same{where}{more}"

    def to_json(self) -> str:
        """Returns the spec as canonical JSON."""
        raw = {"tensors": list(map(_to_json, self.tensors)), "frozen": self.frozen}
        if self.local:
            raw["local"] = list(map(_to_json, self.local))
        if self.digests:
            raw["digests"] = [list(pair) for pair in self.digests]
        return json.dumps(raw, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Returns the spec that :meth:`to_json` wrote."""
        junk = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError)
        try:
            raw = json.loads(text)
            tensors = place_tensors(map(_read, raw["tensors"]))
            local = place_tensors(map(_read, raw.get("local", [])))
            digests = tuple((str(n), str(d)) for n, d in raw.get("digests", []))
            spec = cls(tensors, str(raw["frozen"]), local, digests)
            known = {tensor.name for tensor in spec.tensors}
            if any(t.merge.mean and t.merge.mean not in known for t in spec.tensors):
                raise ValueError("a variance has no mean")
            return spec
        except junk as error:
            raise SpecMismatchError(f"not a model description: {error}") from error


def _check_name(name: object) -> None:
    """Checks that a tensor's name can stand in files, messages and on a terminal.

    Raises:
        ModelError: it cannot.
    """
    if isinstance(name, str) and name not in ("", _OF_FILES) and is_printable(name):
        return
    raise ModelError(
        f"the name {name!a} of a tensor: expected printable text that is neither empty "
        f"nor {_OF_FILES!r}"
    )


def place_tensors(
    tensors: Iterable[tuple[str, tuple[int, ...], Merge]],
) -> tuple[TensorSpec, ...]:
    """Places tensors of these names, shapes and merges one behind the other."""
    specs, offset = list[TensorSpec](), 0
    for name, shape, merge in tensors:
        specs.append(TensorSpec(name, shape, offset, merge))
        offset += specs[-1].size
    return tuple(specs)


def _to_json(tensor: TensorSpec) -> list[Any]:
    """Returns a tensor's name, shape and, of a buffer, how it is merged."""
    merge = [] if tensor.merge == PARAMETER else [list(tensor.merge)]
    return [tensor.name, list(tensor.shape), *merge]


def _read(raw: list[Any]) -> tuple[str, tuple[int, ...], Merge]:
    name, shape, *merge = raw
    how = Merge(*map(str, merge[0])) if merge else PARAMETER
    return str(name), tuple(map(int, shape)), how


def digest(flat_D: Vector) -> str:
    """Returns the name of a model: equal digests mean equal bytes."""
    contiguous = np.asarray(flat_D, dtype="<f4", order="C")
    return hashlib.sha256(contiguous.data.cast("B")).hexdigest()[:32]


def is_named(digest_: str, name: str) -> bool:
    """Returns whether a peer's digest, or its first 8 bytes, is this one."""
    return len(name) >= 16 and digest_.startswith(name)


def on_grid(flat_D: Vector) -> Vector:
    """Rounds the model to multiples of a power of two, the same on every machine.

    Steps that are multiples of it move such a model without rounding, in any order,
    as long as no value grows beyond eight times the largest, or 8. The multiples are
    of 2^-20 in a model of values up to 1; none moves by more than half of that.
    """
    largest = max(float(flat_D.max(initial=1.0)), -float(flat_D.min(initial=-1.0)))
    grid = np.float32(2.0 ** (np.frexp(largest)[1] + 3 - 24))
    rounded_D: Vector = flat_D / grid
    np.rint(rounded_D, out=rounded_D)
    rounded_D *= grid
    return rounded_D


def version_0(flat_D: Vector, origin: str) -> Vector | None:
    """Returns the model with this digest: as given or on the grid; None for neither."""
    if digest(flat_D) == origin:
        return flat_D
    rounded_D = on_grid(flat_D)
    return rounded_D if digest(rounded_D) == origin else None


def content_digest(data: bytes | bytearray | memoryview) -> str:
    """Returns a message's name, by which two sides know that it is the same."""
    return hashlib.sha256(data).hexdigest()[:32]
