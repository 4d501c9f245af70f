"""Settings are frozen pydantic models; methods are chosen by their ``kind``."""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import Annotated, Any, ClassVar, Protocol, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationInfo,
    field_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from fedcore.text import from_peer

Count = Annotated[int, Field(ge=1)]
Versions = Annotated[int, Field(ge=0)]  # how many versions late
Duration = Annotated[float, Field(gt=0)]  # seconds


def check_device(name: str) -> str:
    """Returns the name of a device, as it is.

    Raises:
        ValueError: there is no device of such a name anywhere.
    """
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", name):
        raise ValueError(
            f"device {name!r}: expected cpu, cuda, cuda:1, mps, or auto for the best "
            "of them that is here"
        )
    return name


Device = Annotated[str, AfterValidator(check_device)]


class Config(BaseModel):
    """Base of all settings: frozen, and a typo is an error."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        defer_build=True,
        allow_inf_nan=False,
    )

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_truth_value(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuses truth values where there are numbers; pydantic would take 0 or 1."""
        if isinstance(value, bool | list | dict):
            assert info.field_name is not None
            annotation: Any = cls.model_fields[info.field_name].annotation
            types = _types(annotation)
            numbers = types & {int, float}
            if numbers and not types & {bool, Any, object} and _has_bool(value):
                kind = "number" if float in numbers else "integer"
                raise PydanticCustomError("number", f"Input should be a valid {kind}")
        return value


def _has_bool(value: Any) -> bool:
    """Returns whether a value is a truth value, or holds one."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return any(map(_has_bool, value))
    return isinstance(value, bool)


@cache
def _types(annotation: Any) -> frozenset[Any]:
    """Returns the types that an annotation is made of."""
    inner = get_args(annotation)
    return frozenset([annotation]).union(*map(_types, inner))


def descriptions(model: type) -> Mapping[str, str]:
    """Returns the docstrings below the fields of a class, by the fields' names.

    Pydantic can read them too (``use_attribute_docstrings``), but does so for all
    classes whenever a program starts, which is a third of its start.
    """
    [definition] = ast.parse(dedent(inspect.getsource(model))).body
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(doc.value.value)
        for field, doc in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(doc, ast.Expr)
        and isinstance(doc.value, ast.Constant)
        and isinstance(doc.value.value, str)
    }


class Roles(Protocol):
    """The methods of a recipe, its pace and its weights, for :meth:`Method.fits`."""

    @property
    def synchronous(self) -> bool:
        """Whether a cohort trains each version."""

    @property
    def buffer(self) -> int:
        """The number of updates that make a new version."""

    @property
    def staleness_limit(self) -> int | None:
        """The largest staleness of an update, in versions; None: clients decide."""

    @property
    def weigh_by(self) -> str:
        """``updates`` or ``samples``."""

    @property
    def selection(self) -> Any:
        """Which clients join a cohort."""

    @property
    def update_filter(self) -> Any:
        """Which updates are used at all."""

    @property
    def staleness(self) -> Any:
        """The weight of late updates."""

    @property
    def aggregator(self) -> Any:
        """The rule that makes one update of those in a buffer."""

    @property
    def server(self) -> Any:
        """The rule by which the aggregate moves the model."""

    @property
    def client(self) -> Any:
        """The algorithm that a client trains with."""

    @property
    def uplink(self) -> Any:
        """The compression of updates."""

    @property
    def downlink(self) -> Any:
        """The compression of new versions."""

    @property
    def controllers(self) -> Sequence[Any]:
        """The controllers that set a client's tasks by its past ones."""


class Method(Config):
    """Base of a role's methods; subclasses have a field ``kind: Literal["<name>"]``."""

    kind: str

    role: ClassVar[str] = "method"
    is_withdrawn: ClassVar[bool] = False
    """Whether this class itself is registered no more, since its file has changed."""

    def fits(self, roles: "Roles") -> None:
        """Checks the recipe that it stands in.

        Raises:
            ValueError: it does not work together with another role's method.
        """

    @classmethod
    def example(cls) -> "Method":
        """Returns an instance with settings that suit a model of a hundred values."""
        return cls()  # type: ignore[call-arg]  # subclasses have defaults


def kind_of(method: type[Method]) -> str:
    """Returns the name under which a config file chooses this method."""
    (kind,) = get_args(method.model_fields["kind"].annotation)
    return str(kind)


def methods(role: type[Method]) -> tuple[type[Method], ...]:
    """Returns the methods of a role that were imported, without recipes' bases."""
    found: list[type[Method]] = []
    for sub in role.__subclasses__():
        is_withdrawn = "is_withdrawn" in vars(sub)
        if get_args(sub.model_fields["kind"].annotation) and not is_withdrawn:
            found.append(sub)
        found.extend(methods(sub))
    return tuple(dict.fromkeys(found))  # some have two parents


def with_inner(method: Method) -> Iterator[Method]:
    """Yields a method, and then the methods inside it."""
    yield method
    for name in type(method).model_fields:
        inner = getattr(method, name)
        if isinstance(inner, Method):
            yield from with_inner(inner)


class OneOf:
    """Marks a field that takes any imported method of its role.

    ``Annotated[Compressor, OneOf()]`` accepts what ``kind`` names. The choice is
    made when a value is read, so a method that a user's module defines joins without
    being listed anywhere.
    """

    def __get_pydantic_core_schema__(
        self, source: type[Method], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Returns a validator that hands over to the method that ``kind`` names."""
        return core_schema.no_info_plain_validator_function(
            lambda given: _choose(source, given),
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda method, info: method.model_dump(mode=info.mode), info_arg=True
            ),
            metadata={"role": source.role},  # for a schema, which asks methods() itself
        )


def two_of_a_kind(role: type[Method]) -> tuple[type[Method], type[Method]] | None:
    """Returns two methods of one role that different modules call alike, if any.

    Of those that one module has defined under a name, as a cell of a notebook does that
    runs again, the newest counts.
    """
    known: dict[tuple[str, str], type[Method]] = {}
    for method in methods(role):
        first = known.setdefault((method.role, kind_of(method)), method)
        if first.__module__ != method.__module__:
            return first, method
    return None


def _choose(role: type[Method], given: Any) -> Method:
    if isinstance(given, role):
        return given
    choices = {kind_of(method): method for method in methods(role)}
    context = {"role": role.role, "kinds": ", ".join(sorted(choices))}
    if not isinstance(given, Mapping) or "kind" not in given:
        raise PydanticCustomError("no_kind", "needs a kind; kinds: {kinds}", context)
    if not isinstance(given["kind"], str) or given["kind"] not in choices:
        context["given"] = from_peer(str(given["kind"]))
        raise PydanticCustomError(
            "unknown_kind", "unknown {role} {given}; kinds: {kinds}", context
        )
    chosen = choices[given["kind"]]
    for method in methods(role):
        if kind_of(method) == given["kind"] and method.__module__ != chosen.__module__:
            context["given"] = given["kind"]
            context["places"] = f"{method.__module__} and {chosen.__module__}"
            raise PydanticCustomError(
                "two_of_a_kind",
                "there are two {role} methods {given}, of {places}; give yours another "
                "kind",
                context,
            )
    return chosen.model_validate(given)
