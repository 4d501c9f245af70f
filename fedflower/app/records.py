"""Converts Flower's ArrayRecord to a flat vector, and back to its original types.

Arrays of floating-point numbers are parameters; ``running_mean`` and ``running_var`` of
a layer are batch statistics, averaged by the rule of :mod:`fedcore.merging`. Arrays of
whole numbers and booleans stay with the client, because they have no mean.

A message of Flower holds an array as the bytes of ``numpy.save``. NumPy has no
bfloat16: libraries that have it save its two bytes as ``V2``, and name the type in the
field ``dtype`` beside them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from fedcore.errors import ModelError, SpecMismatchError
from fedcore.merging import MEAN, PARAMETER, Merge
from fedcore.params import ParamSpec, Tensors
from fedcore.typing import Vector
from fedflower.app.library import flwr

ArrayRecord = Any  # flwr's type; flwr is imported only where it is used
AnyArray = npt.NDArray[Any]
BFLOAT16 = "bfloat16"
MEAN_NAME, VARIANCE_NAME = "running_mean", "running_var"


@dataclass(frozen=True)
class RecordLayout:
    """The layout of the arrays of one ArrayRecord in a flat vector.

    Attributes:
        spec: names, shapes and places of the arrays that are trained and averaged.
        dtypes: the types of all arrays, by name, in the order of the record.
        first: the initial values of the arrays that stay with a client.
    """

    spec: ParamSpec
    dtypes: Mapping[str, str]
    first: Mapping[str, AnyArray]

    @classmethod
    def of(cls, record: ArrayRecord) -> Self:
        """Returns the layout of a record.

        Raises:
            ModelError: it has no array to train, or an array that does not hold
                numbers.
        """
        arrays = {name: read_array(name, array) for name, array in record.items()}
        dtypes = {name: _dtype(record[name], arrays[name]) for name in arrays}
        floats = {name: as_float32(name, arrays[name], dtypes[name]) for name in arrays}
        averaged = {name: found for name, found in floats.items() if found is not None}
        merges = {name: _merge(name, averaged) for name in averaged}
        ordered = sorted(averaged, key=lambda name: merges[name] != PARAMETER)
        return cls(
            ParamSpec.of({name: averaged[name] for name in ordered}, merges=merges),
            dtypes,
            {name: arrays[name] for name in arrays if floats[name] is None},
        )

    def flatten(self, record: ArrayRecord, whose: str = "these arrays") -> Vector:
        """Returns a record's flat vector (D,) in float32; see :meth:`tensors`."""
        return self.spec.flatten(self.tensors(record, whose))

    def tensors(
        self, record: ArrayRecord, whose: str = "these arrays"
    ) -> dict[str, AnyArray]:
        """Returns the arrays of a record that are trained and averaged, as float32.

        Args:
            record: has the same names and shapes; its types may differ.
            whose: its owner, for error messages.

        Raises:
            SpecMismatchError: a name or a shape differs.
            ModelError: an array holds no floating-point numbers.
        """
        unknown = [name for name in record if name not in self.dtypes]
        if unknown:
            raise SpecMismatchError(
                f"{whose}: array {unknown[0]!r} is not in the federation's model; its "
                f"arrays: {', '.join(self.dtypes)}"
            )
        tensors: dict[str, AnyArray] = {}
        for each in self.spec.tensors:
            if each.name not in record:
                raise SpecMismatchError(f"{whose}: array {each.name!r} is missing")
            array = read_array(each.name, record[each.name])
            if array.shape != each.shape:
                raise SpecMismatchError(
                    f"{whose}: array {each.name!r} should have shape "
                    f"{list(each.shape)}, has {list(array.shape)}"
                )
            dtype = _dtype(record[each.name], array)
            found = as_float32(each.name, array, dtype)
            if found is None:
                raise ModelError(
                    f"{whose}: array {each.name!r} has dtype {dtype}; expected "
                    f"{self.dtypes[each.name]}"
                )
            tensors[each.name] = found
        return tensors

    def local(self, record: ArrayRecord) -> dict[str, AnyArray]:
        """Returns the arrays of a record that stay with the client."""
        return {
            name: read_array(name, record[name])
            for name in self.first
            if name in record
        }

    def record(
        self, flat_D: Vector, local: Mapping[str, AnyArray] | None = None
    ) -> ArrayRecord:
        """Returns the record of a flat vector, with its original types.

        Args:
            flat_D: the model; companions may follow its D values.
            local: the arrays that stay with the client; by default their initial
                values.
        """
        return self.record_of(self.spec.unflatten(flat_D), local)

    def record_of(
        self, trained: Tensors, local: Mapping[str, AnyArray] | None = None
    ) -> ArrayRecord:
        """Returns the record of named arrays; see :meth:`record`."""
        own = self.first if local is None else {**self.first, **local}
        app = flwr("flwr.app")
        return app.ArrayRecord(
            {
                name: write_array(app.Array, own.get(name, trained.get(name)), dtype)
                for name, dtype in self.dtypes.items()
            }
        )


def read_array(name: str, array: Any) -> AnyArray:
    """Returns an array of Flower as one of NumPy; bfloat16 has the type ``V2``.

    Raises:
        ModelError: it was not serialised by NumPy.
    """
    try:
        return np.asarray(array.numpy())
    except (TypeError, ValueError, EOFError) as error:
        raise ModelError(
            f"array {name!r} cannot be read as one of NumPy: {error}"
        ) from error


def write_array(kind: Any, values: AnyArray | None, dtype: str) -> Any:
    """Returns an array of Flower.

    Args:
        kind: the class ``flwr.app.Array``.
        values: values of any type.
        dtype: the type of the result.
    """
    assert values is not None
    if dtype == BFLOAT16:
        raw = values if values.dtype.kind == "V" else _to_bfloat16(values)
        buffer = BytesIO()
        np.save(buffer, raw, allow_pickle=False)
        return kind(BFLOAT16, tuple(raw.shape), "numpy.ndarray", buffer.getvalue())
    with np.errstate(over="ignore"):  # beyond float16: infinite, and seen as such
        return kind(np.asarray(values, np.dtype(dtype), order="C"))


def as_float32(name: str, array: AnyArray, dtype: str) -> AnyArray | None:
    """Returns floating-point numbers as float32; None for whole numbers and bools.

    Raises:
        ModelError: the array holds something else.
    """
    if dtype == BFLOAT16:
        bits = np.frombuffer(array.tobytes(), np.uint16).astype(np.uint32) << 16
        return bits.view(np.float32).reshape(array.shape)
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return array.astype(np.float32)
    if array.dtype.kind in "iub":
        return None
    raise ModelError(
        f"array {name!r} has dtype {dtype}; expected floating-point numbers, which are "
        "trained, or whole numbers and bools, which stay with the client"
    )


def _dtype(array: Any, values: AnyArray) -> str:
    is_bfloat16 = values.dtype.kind == "V" and values.dtype.itemsize == 2
    is_named = array.dtype == BFLOAT16
    return BFLOAT16 if is_bfloat16 and is_named else str(values.dtype)


def _to_bfloat16(values: AnyArray) -> AnyArray:
    """Rounds to the nearest bfloat16, ties to even; NaN stays NaN."""
    bits = np.asarray(values, np.float32, order="C").view(np.uint32).reshape(-1)
    rounded = (bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16
    rounded[np.isnan(values).reshape(-1)] = 0x7FC0
    return rounded.astype(np.uint16).view("V2").reshape(values.shape)


def _merge(name: str, averaged: Mapping[str, AnyArray]) -> Merge:
    layer, _, own = name.rpartition(".")
    if own not in (MEAN_NAME, VARIANCE_NAME):
        return PARAMETER
    mean = f"{layer}.{MEAN_NAME}" if layer else MEAN_NAME
    shapes = {np.shape(averaged[each]) for each in (name, mean) if each in averaged}
    is_pair = own == VARIANCE_NAME and mean in averaged and len(shapes) == 1
    return Merge("variance", mean) if is_pair else MEAN
