"""Finds the state that a user's object keeps from one call to the next.

Only the model is sent and kept. A module, a loss or a gradient function that remembers
something else would be another one at each client, and in a simulation one for all of
them, so it is refused. What it holds is compared before and after a step: attributes,
what is in them, and for functions their closures and the globals that they name.

A change is harmless if no result depends on it: a table by the length of a batch, an
output that is kept to be looked at, a count for a log. To tell those from a state, a
copy from before the first step computes other inputs and then the same ones, with the
same random draws. Another result depends on what came before.
"""

import functools
import inspect
import itertools
import math
import operator
import random
import sys
import types
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from enum import Enum
from functools import partial, singledispatch
from typing import Any, NamedTuple

import numpy as np

from fedcore import PACKAGES
from fedcore.errors import WorkloadError

DEEP, MOST = 32, 50_000  # levels and objects that are looked at
LARGE = 1 << 20  # values of an array; of a larger one some are compared
SOME = 1 << 12
CLOSE = 1e-6  # results of one step that is computed twice
FIRST = 4  # steps that are looked at; then 8, 16, 32 ...
_LIBRARIES = frozenset([*sys.stdlib_module_names, "torch", "numpy", *PACKAGES]) - {
    "__main__"
}
_INSTALLED = ("site-packages", "dist-packages")

Restore = Callable[[], None]


class Part(NamedTuple):
    """An object of the user's that takes part in a step."""

    who: str
    """Names it, such as "the loss"."""
    value: Any
    kept: str
    """Names what of it is sent and kept, after "what it remembers"."""
    instead: str
    """What to do, in the words that end the sentence."""


class Held:
    """An object's state, by name, as values that can be compared."""

    def __init__(self, known: frozenset[Any] = frozenset()) -> None:
        """Holds nothing yet; what is known belongs to the model and is left out."""
        self.known = known
        self.values: dict[str, Any] = {}
        self.generators: set[str] = set()
        self.trained: dict[str, Any] = {}  # tensors outside of the model with gradients
        self.given: dict[int, Any] = {}  # what copies hold in place of an object
        self.has_user_code = False
        self._seen: dict[int, Any] = {}  # kept alive: another could get its id

    def look(self, name: str, value: Any, deep: int = DEEP) -> None:
        """Looks at a value and at what is in it."""
        if id(value) in self.known or not deep or len(self._seen) >= MOST:
            return
        if value is None or isinstance(value, bool | int | float | complex | str):
            self.values[name] = repr(value) if len(str(value)) < LARGE else hash(value)
            return
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        look_at(value, name, self, deep - 1)

    def attribute(self, name: str, key: str, value: Any, deep: int) -> None:
        """Looks at the attribute ``key`` of the object that has this name."""
        self.look(f"{name}.{key}" if name else key, value, deep)

    def generator(self, name: str, state: Any) -> None:
        """Takes note of a random generator's state."""
        self.generators.add(name)
        self.values[name] = state

    def array(self, name: str, array: Any) -> None:
        """Takes note of a NumPy array."""
        if array.size > LARGE:
            flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
            array = np.array(flat[:: array.size // SOME])
        self.values[name] = array.shape, array.dtype.str, array.tobytes()

    def user_object(
        self, name: str, value: Any, deep: int, without: Container[str] = ()
    ) -> None:
        """Looks at attributes, but for some, and at the data of its class."""
        kind = type(value)
        for cls in kind.__mro__:
            if not _is_users(cls.__module__):
                continue
            self.has_user_code = True
            for key, part in [*vars(cls).items()]:
                if isinstance(part, types.FunctionType):
                    self.user_globals(part, deep)
                elif not key.startswith("__") and _is_data(part):
                    self.attribute(name, key, part, deep)
            for key in _slots(cls):
                member = vars(cls).get(key)
                if isinstance(member, types.MemberDescriptorType):
                    with suppress(AttributeError):
                        self.attribute(name, key, member.__get__(value), deep)
        for key, part in [*_own(value).items()]:
            if key not in without:
                self.attribute(name, str(key), part, deep)

    def user_globals(self, function: types.FunctionType, deep: int) -> None:
        """Looks at the globals that a user's function names."""
        if not _is_users(function.__module__ or "__main__"):
            return
        self.has_user_code = True
        names = function.__globals__
        if any(mark in (names.get("__file__") or "") for mark in _INSTALLED):
            return
        for key in _names_in(function.__code__):
            if key in names and not isinstance(names[key], type | types.ModuleType):
                self.look(key, names[key], deep)


@singledispatch
def look_at(value: Any, name: str, held: Held, deep: int) -> None:
    """Looks at an object of a type; types of torch are registered in fedtorch.

    Args:
        value: the object.
        name: of it, in the object that is looked at.
        held: takes note.
        deep: levels that are left.
    """
    if _is_users(type(value).__module__):
        held.user_object(name, value, deep)


def _ignore(value: Any, name: str, held: Held, deep: int) -> None:
    """Ignores modules, classes and references, which are no state."""


for _kind in (types.ModuleType, type, weakref.ref, Enum):
    look_at.register(_kind, _ignore)


@look_at.register(dict)
@look_at.register(types.MappingProxyType)
def _(value: Any, name: str, held: Held, deep: int) -> None:
    for place, (key, part) in enumerate([*value.items()]):
        entry = f"{name}[{_key(key, place)}]"
        held.values[entry] = "an entry"
        held.look(entry, part, deep)
    _look_at_subclass(value, name, held, deep)


@look_at.register(list)
@look_at.register(tuple)
@look_at.register(deque)
def _(value: Any, name: str, held: Held, deep: int) -> None:
    held.values[name] = len(value)
    for place, part in enumerate([*value]):
        held.look(f"{name}[{place}]", part, deep)
    _look_at_subclass(value, name, held, deep)


@look_at.register(set)
@look_at.register(frozenset)
def _(value: Any, name: str, held: Held, deep: int) -> None:
    for place, part in enumerate(value):
        entry = f"{name}[{_key(part, place)}]"
        held.values[entry] = "an entry"
    _look_at_subclass(value, name, held, deep)


def _look_at_subclass(value: Any, name: str, held: Held, deep: int) -> None:
    if _is_users(type(value).__module__):
        held.user_object(name, value, deep)


@look_at.register(bytes)
@look_at.register(bytearray)
def _(value: Any, name: str, held: Held, deep: int) -> None:
    held.values[name] = bytes(value) if len(value) < LARGE else hash(bytes(value))


@look_at.register(types.FunctionType)
def _(value: Any, name: str, held: Held, deep: int) -> None:
    held.user_globals(value, deep)
    cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
    for key, cell in cells:
        with suppress(ValueError):  # it is empty
            held.attribute(name, key, cell.cell_contents, deep)
    for part in (value.__defaults__ or (), (value.__kwdefaults__ or {}).values()):
        for place, default in enumerate(part):
            held.attribute(name, f"default {place}", default, deep)
    for key, part in [*vars(value).items()]:
        held.attribute(name, key, part, deep)


@look_at.register(types.MethodType)
def _(value: Any, name: str, held: Held, deep: int) -> None:
    held.look(name, value.__self__, deep)
    held.look(name, value.__func__, deep)


@look_at.register(types.BuiltinMethodType)
def _(value: Any, name: str, held: Held, deep: int) -> None:
    held.look(name, value.__self__, deep)


@look_at.register(partial)
def _(value: Any, name: str, held: Held, deep: int) -> None:
    held.look(name, value.func, deep)
    for key, part in [*enumerate(value.args), *value.keywords.items()]:
        held.attribute(name, f"argument {key}", part, deep)


@look_at.register(types.SimpleNamespace)
def _(value: Any, name: str, held: Held, deep: int) -> None:
    for key, part in [*vars(value).items()]:
        held.attribute(name, key, part, deep)


@look_at.register(types.GeneratorType)
def _(value: Any, name: str, held: Held, deep: int) -> None:
    held.values[name] = value.gi_frame and value.gi_frame.f_lasti
    for key, part in inspect.getgeneratorlocals(value).items():
        held.attribute(name, key, part, deep)


@look_at.register(itertools.count)
def _(value: Any, name: str, held: Held, deep: int) -> None:
    held.values[name] = repr(value)


@look_at.register(type(iter([])))
@look_at.register(type(iter(())))
@look_at.register(type(iter(range(0))))
def _(value: Any, name: str, held: Held, deep: int) -> None:
    held.values[name] = operator.length_hint(value)


@look_at.register(np.ndarray)
@look_at.register(np.generic)
def _(value: Any, name: str, held: Held, deep: int) -> None:
    if value.dtype.hasobject:
        for place, part in enumerate(value.reshape(-1).tolist()):
            held.look(f"{name}[{place}]", part, deep)
        return
    if value.size > LARGE:
        held.given[id(value)] = value
    held.array(name, value)


@look_at.register(np.random.Generator)
def _(value: Any, name: str, held: Held, deep: int) -> None:
    held.generator(name, repr(value.bit_generator.state))


@look_at.register(np.random.BitGenerator)
def _(value: Any, name: str, held: Held, deep: int) -> None:
    held.generator(name, repr(value.state))


@look_at.register(np.random.RandomState)
def _(value: Any, name: str, held: Held, deep: int) -> None:
    if value is not np.random.mtrand._rand:
        held.generator(name, repr(value.get_state(legacy=False)))


@look_at.register(random.Random)
def _(value: Any, name: str, held: Held, deep: int) -> None:
    is_global = value is getattr(random, "_inst", None)
    if not is_global and not isinstance(value, random.SystemRandom):
        held.generator(name, random.Random.getstate(value))
        _look_at_subclass(value, name, held, deep)


def is_looked_at(step: int) -> bool:
    """Returns whether a step, counted from 1 on, is one of those that are looked at."""
    return step <= FIRST or not step & (step - 1)


class Memory:
    """Looks whether steps change what the user's objects hold beside the model.

    It looks at the first few steps, and then at fewer and fewer.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        known: Iterable[Any] = (),
        error: type[WorkloadError] = WorkloadError,
    ) -> None:
        """Looks at what the objects hold now.

        Args:
            parts: the objects.
            known: ids of tensors that belong to the model.
            error: is raised.
        """
        self._parts, self._error, self._known = tuple(parts), error, frozenset(known)
        values = [part.value for part in parts]
        held = self._all_held(values)
        self.is_needed = any(each.has_user_code for each in held)
        """Whether any code of the user's runs in a step."""
        # An evaluation may change it before the first step.
        self._first = held if self.is_needed else []
        self._copies = self._copy_values(values) if self.is_needed else None
        self._done, self._evaluations = 0, 0
        self._is_changed_by_evaluations = False
        self._refused: WorkloadError | None = None

    def begin(
        self, draws: Callable[[], Restore], *, always: bool = False
    ) -> "Look | None":
        """Takes note of what is held before a step; None if it does not look at it.

        Args:
            draws: takes note of the state of the global random generators, and returns
                a function that brings it back.
            always: looks at this step.

        Raises:
            WorkloadError: an earlier look has.
        """
        if not self.is_needed:
            return None
        if not (always or is_looked_at(self._done + 1)):
            self._done += 1
            return None
        if self._refused is not None:
            raise self._refused
        before = self._all_held() if self._done else self._first
        return Look(self, before, draws)

    @contextmanager
    def evaluating(self) -> Iterator[Any]:
        """Lends the first object for an evaluation, a copy if evaluations change it.

        So each evaluation is the first one, and no step knows of it.
        """
        self._evaluations += 1
        objects = None
        if self._is_changed_by_evaluations or (
            self.is_needed and is_looked_at(self._evaluations)
        ):
            objects = self._fresh()
        if objects is None:
            yield self._parts[0].value
            return
        before = self._look_at(objects[0])
        yield objects[0]
        if _list_changes(before, self._look_at(objects[0])):
            self._is_changed_by_evaluations = True

    def _copy_values(self, values: Sequence[Any]) -> list[Any] | None:
        """Copies of objects as they are; None if they cannot be copied."""
        given: dict[int, Any] = {}
        for value in values:
            given |= self._look_at(value).given
        return _copies(values, given)

    def _fresh(self) -> list[Any] | None:
        """Returns the objects as they were before the first step; None: unknown."""
        return None if self._copies is None else self._copy_values(self._copies)

    def end(
        self,
        before: Sequence[Held],
        result: Sequence[float],
        again: Callable[[Sequence[Any]], Sequence[float]],
    ) -> None:
        """Compares what is held now with what was held before the step.

        Args:
            before: what was held.
            result: of the step.
            again: computes with other objects on other inputs, and then what the step
                has computed; returns the result.

        Raises:
            WorkloadError: a part remembers, draws from a generator of its own, or has a
                parameter that nobody trains; of the class that was given.
        """
        try:
            self._judge(before, result, again)
        except WorkloadError as error:
            self._refused = error
            raise
        self._done += 1

    def _look_at(self, value: Any) -> Held:
        held = Held(self._known)
        held.look("", value)
        return held

    def _all_held(self, values: Sequence[Any] | None = None) -> list[Held]:
        given = [part.value for part in self._parts] if values is None else values
        return [self._look_at(value) for value in given]

    def _judge(
        self,
        before: Sequence[Held],
        result: Sequence[float],
        again: Callable[[Sequence[Any]], Sequence[float]],
    ) -> None:
        after = self._all_held()
        for part, held in zip(self._parts, after, strict=True):
            for name, tensor in held.trained.items():
                if tensor.grad is not None:
                    tensor.grad = None
                    raise self._error(
                        f"{part.who} has a parameter {name!r} of its own, which nobody "
                        f"would train; {part.instead}"
                    )
        changed = [
            _list_changes(old, new) for old, new in zip(before, after, strict=True)
        ]
        if not any(changed):
            return
        fresh, others = self._fresh(), [Held()] * len(after)
        if fresh is not None:
            try:
                if _are_same(again(fresh), result):
                    return
                others = self._all_held(fresh)
            except Exception:  # noqa: BLE001 -- a copy of the user's code, on other data
                pass
        found = [
            (part, name, held, held.values.get(name) != other.values.get(name))
            for part, names, held, other in zip(
                self._parts, changed, after, others, strict=True
            )
            for name in names
        ]
        # Among harmless changes, what has another value is the likely cause.
        part, name, held, _ = max(found, key=lambda each: each[3])
        raise self._error(_sentence(part, name, held))


class Look:
    """The state before one step."""

    def __init__(
        self, memory: Memory, before: list[Held], draws: Callable[[], Restore]
    ) -> None:
        self._memory, self._before = memory, before
        self._draws, self._first = draws, draws()

    def end(
        self, result: Sequence[float], again: Callable[[Any, bool], Sequence[float]]
    ) -> None:
        """Compares after the step.

        Args:
            result: of the step, such as its loss; some numbers.
            again: ``again(objects, is_other)`` computes the step with other objects in
                place of the user's, on other inputs or on the same ones.

        Raises:
            WorkloadError: see :meth:`Memory.end`.
        """
        restore = self._draws()

        def twice(objects: Sequence[Any]) -> Sequence[float]:
            with suppress(Exception):  # other inputs may be impossible
                again(objects, True)
            self._first()
            return again(objects, False)

        try:
            self._memory.end(self._before, result, twice)
        finally:
            restore()


def global_draws() -> Restore:
    """Takes note of the global generators of Python and NumPy."""
    ours, theirs = random.getstate(), np.random.get_state()  # noqa: NPY002

    def restore() -> None:
        random.setstate(ours)
        np.random.set_state(theirs)  # noqa: NPY002 -- the user's code may draw from it

    return restore


def copy_object(value: Any) -> Any:
    """Returns a copy of a user's object or function, with what it remembers.

    Large arrays are shared, and so is what cannot be copied.
    """
    held = Held()
    held.look("", value)
    found = _copies([value], held.given)
    return value if found is None else found[0]


def _copies(values: Sequence[Any], shared: Mapping[int, Any]) -> list[Any] | None:
    """Copies objects together; None if one cannot be copied."""
    memo = dict(shared)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of libraries, about copies
            return [_copy(value, memo) for value in values]
    except Exception:  # noqa: BLE001 -- copying an object of the user's
        return None


def _copy(value: Any, memo: dict[int, Any]) -> Any:
    if id(value) in memo:
        return memo[id(value)]
    if isinstance(value, partial):
        parts = [_copy(part, memo) for part in value.args]
        named = {key: _copy(part, memo) for key, part in value.keywords.items()}
        return partial(_copy(value.func, memo), *parts, **named)
    if not isinstance(value, types.FunctionType):
        return deepcopy(value, memo)
    cells = tuple(types.CellType() for _ in value.__closure__ or ())
    made = types.FunctionType(
        value.__code__, value.__globals__, value.__name__, None, cells
    )
    memo[id(value)] = made
    functools.update_wrapper(made, value, updated=())
    made.__defaults__ = _copy_or_same(value.__defaults__, memo)
    made.__kwdefaults__ = _copy_or_same(value.__kwdefaults__, memo)
    vars(made).update({k: _copy_or_same(v, memo) for k, v in vars(value).items()})
    for mine, theirs in zip(cells, value.__closure__ or (), strict=True):
        with suppress(ValueError):  # it is empty
            mine.cell_contents = _copy_or_same(theirs.cell_contents, memo)
    return made


def _copy_or_same(value: Any, memo: dict[int, Any]) -> Any:
    """Copies a value that a function holds, which may be a module or an open file."""
    try:
        return _copy(value, memo)
    except Exception:  # noqa: BLE001 -- copying an object of the user's
        return value


def _list_changes(before: Held, after: Held) -> list[str]:
    """Returns the names of changed, new and gone values, in their order."""
    names = {**after.values, **before.values}
    missing = object()
    return [
        name
        for name in names
        if before.values.get(name, missing) != after.values.get(name, missing)
    ]


def _are_same(one: Sequence[float], other: Sequence[float]) -> bool:
    return all(
        (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=CLOSE)
        for a, b in zip(one, other, strict=True)
    )


def _sentence(part: Part, name: str, held: Held) -> str:
    short = name.partition("[")[0]
    if name in held.generators:
        return (
            f"{part.who} draws random numbers from its own {short!r}, which nobody "
            "seeds for a task; draw from the global generator of torch, NumPy or "
            "Python, which are seeded"
        )
    return (
        f"{part.who} changes its {short!r} in training, and {part.kept} is neither "
        f"sent nor kept; {part.instead}, or compute it from the inputs"
    )


def _is_users(module: str | None) -> bool:
    return (module or "__main__").partition(".")[0] not in _LIBRARIES


def _is_data(value: Any) -> bool:
    """Returns whether a class attribute may be state, and no part of the class."""
    return not (
        callable(value) or hasattr(type(value), "__get__") or isinstance(value, type)
    )


def _slots(cls: type) -> tuple[str, ...]:
    slots = vars(cls).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _own(value: Any) -> dict[str, Any]:
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}


def _names_in(code: types.CodeType) -> Iterator[str]:
    """Yields names that a function's code uses, and that of functions in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)


def _key(key: Any, place: int) -> str:
    """Returns a dict's key as text, without calling code of the user's."""
    if type(key) in (str, int, float, bool, bytes, type(None)):
        return repr(key)
    if isinstance(key, tuple):
        return f"({', '.join(_key(part, place) for part in key)})"
    if type(key).__module__.startswith("torch"):
        return str(key)
    return f"{type(key).__name__} {place}"
