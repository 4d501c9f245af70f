"""Writes ``docs/configuration.md`` from the settings: ``make configuration``.

Nothing is listed here by hand. The sections are the fields of the federation's
config, and the methods of a role are those that are registered.
"""

import re
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from fedcore.algorithm import AlgorithmConfig
from fedcore.config import Config, Method, OneOf, descriptions, kind_of, methods
from fedrun.config import FederationConfig
from fedserver.view.web.metrics import METRICS

PAGE = Path(__file__).parent / "configuration.md"
OPERATIONS = PAGE.with_name("operations.md")
_INTRO = """# Configuration

One YAML describes a federation, for the server and the simulator alike. Clients need
none: the server tells them. What is not said has the default given here;
`fedserver check federation.yaml` prints the whole, or every mistake at once. A single
field is changed with `--set algorithm.buffer=8`; setting a `kind` clears the other
settings of that method, except for that of `algorithm` itself.

This page is generated from the program.

## The whole

All of it, with the default algorithm and its defaults:

"""
_LIST = "[]"  # after the name of a field that takes a list of methods
_BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


@dataclass(frozen=True)
class Place:
    """Where in the YAML something stands."""

    path: tuple[str, ...]
    kinds: Mapping[tuple[str, ...], str]  # of the roles on the way, which need one

    def inner(self, name: str, kind: str | None = None) -> "Place":
        """One step further; ``kind`` is the default's, if a role stands there."""
        path = (*self.path, name)
        return Place(path, self.kinds if kind is None else {**self.kinds, path: kind})

    @property
    def name(self) -> str:
        """As ``--set`` names it."""
        return ".".join(self.path)

    def nest(self, value: Any) -> Any:
        """A config in which ``value`` stands here."""
        for end in range(len(self.path), 0, -1):
            around = self.path[: end - 1]
            step = self.path[end - 1]
            name = step.removesuffix(_LIST)
            value = {name: value if name == step else [value]}
            if around in self.kinds:
                value = {"kind": self.kinds[around], **value}
        return value


@dataclass
class Found:
    """The sections and roles of the config, in the order in which they appear."""

    sections: dict[type[BaseModel], Place] = field(default_factory=dict)
    roles: dict[type[Method], list[Place]] = field(default_factory=dict)


def find() -> Found:
    """Walks the config from its top."""
    found = Found()
    _walk(FederationConfig, Place((), {}), found)
    return found


def kinds_of(role: type[Method]) -> list[type[Method]]:
    """The methods that come with the program; a user's module may add others."""
    package = role.__module__.partition(".")[0] + "."
    own = (m for m in methods(role) if m.__module__.startswith(package))
    return sorted(own, key=kind_of)


def _walk(model: type[BaseModel], place: Place, found: Found) -> None:
    for name, info in model.model_fields.items():
        role, section = role_of(info), _section_in(info.annotation)
        if role is not None:
            default = info.get_default(call_default_factory=True)
            if isinstance(default, Method):
                here = place.inner(name, kind_of(type(default)))
            elif default is None:  # a method or none
                here = place.inner(name, kind_of(kinds_of(role)[0]))
            else:
                here = place.inner(f"{name}{_LIST}")
            is_new = role not in found.roles
            places = found.roles.setdefault(role, [])
            if all(here.path != place.path for place in places):
                places.append(here)
            if is_new:
                for method in (role, *kinds_of(role)):
                    _walk(method, Place(here.path, _with_kind(here, method)), found)
        elif section is not None and section not in found.sections:
            found.sections[section] = place.inner(name)
            _walk(section, place.inner(name), found)


def _with_kind(place: Place, method: type[Method]) -> Mapping[tuple[str, ...], str]:
    if not get_args(method.model_fields["kind"].annotation):
        return place.kinds  # the role's base, whose fields all methods have
    return {**place.kinds, place.path: kind_of(method)}


def role_of(info: FieldInfo) -> type[Method] | None:
    """The role whose methods a field takes."""
    annotation, marks = info.annotation, info.metadata
    parts = get_args(annotation)
    if get_origin(annotation) is tuple or type(None) in parts:  # a list, or none at all
        annotation, *marks = get_args(parts[0]) or (None,)
    if any(isinstance(mark, OneOf) for mark in marks):
        role: type[Method] = annotation  # type: ignore[assignment]
        return role
    return None


def _section_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner = (_section_in(part) for part in get_args(annotation))
    return next((section for section in inner if section is not None), None)


# --------------------------------------------------------------------------- values


def plain(value: Any) -> Any:
    """A value as YAML has it; of a method, its kind and what was set."""
    if isinstance(value, Method):
        names = [n for n in type(value).model_fields if n in value.model_fields_set]
        kind = {"kind": kind_of(type(value))}
        return kind | {n: plain(getattr(value, n)) for n in names if n != "kind"}
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Path):
        return str(value)
    return value


def flow(value: Any) -> str:
    """A value on one line of YAML."""
    text = yaml.safe_dump(
        plain(value), default_flow_style=True, sort_keys=False, width=10_000
    )
    return text.removesuffix("\n").removesuffix("\n...")


def block(value: Any) -> str:
    """A block of YAML."""
    text = yaml.safe_dump(plain(value), sort_keys=False, allow_unicode=True)
    return f"```yaml\n{text}```\n"


def type_of(annotation: Any, metadata: list[Any]) -> str:
    """A type with its range, in words."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_of(parts[0], [*parts[1:], *metadata])
    if origin is Literal:
        return " or ".join(f"`{flow(part)}`" for part in parts)
    if origin in (Union, types.UnionType):
        given = [type_of(part, []) for part in parts if part is not type(None)]
        return " or ".join([*given, "`null`"] if type(None) in parts else given)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"mapping of {type_of(parts[0], [])} to {type_of(parts[1], [])}"
    if origin is tuple:
        return f"list of {type_of(parts[0], [])}"
    names = {int: "whole number", float: "number", str: "text", bool: "true or false"}
    names[Path] = "path"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return f"[section](#{_anchor(annotation)})"
    return " ".join([names[annotation], *bounds(metadata)])


def bounds(metadata: list[Any]) -> Iterator[str]:
    """The limits of a number."""
    flat: list[Any] = []
    for mark in metadata:
        flat += mark.metadata if isinstance(mark, FieldInfo) else [mark]
    limits = [
        f"{sign} {getattr(mark, name)}"
        for mark in flat
        for name, sign in _BOUNDS.items()
        if hasattr(mark, name)
    ]
    if limits:
        yield ", ".join(limits)


def default_of(info: FieldInfo) -> str:
    """A field's default."""
    if info.is_required():
        return "must be given"
    value = info.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "must be given"
    if isinstance(value, BaseModel) and not isinstance(value, Method):
        return "its defaults"
    return f"`{flow(value)}`"


def description_of(model: type[BaseModel], name: str) -> str:
    """What a field is; an overridden one is what it was in the base."""
    for cls in model.__mro__:
        if issubclass(cls, Config) and name in (said := descriptions(cls)):
            return cell(said[name])
    return ""


# ----------------------------------------------------------------------------- text


def text_of(doc: str | None) -> str:
    """A docstring as Markdown."""
    escaped = re.sub(r":\w+:`~?([^`]+)`", r"``\1``", doc or "")
    parts = re.split(r"(``[^`]+``)", escaped)
    return "".join(
        part if part.startswith("``") else re.sub(r"([*_<>\[\]|$])", r"\\\1", part)
        for part in parts
    ).strip()


def cell(doc: str) -> str:
    """A docstring in a cell of a table."""
    return " ".join(text_of(doc).split())


def table(model: type[BaseModel], names: list[str]) -> str:
    """The fields of a section or method."""
    if not names:
        return ""
    rows = ["| field | type | default | |", "| --- | --- | --- | --- |"]
    for name in names:
        info = model.model_fields[name]
        role = role_of(info)
        kind = (
            type_of(info.annotation, info.metadata)
            if role is None
            else f"[{role.role}](#{_slug(_heading(role))})"
        )
        if role is not None and get_origin(info.annotation) is tuple:
            kind = f"list of {kind}"
        elif role is not None and role is not info.annotation:
            kind = f"{kind} or `null`"
        rows.append(
            f"| `{name}` | {kind} | {default_of(info)} "
            f"| {description_of(model, name)} |"
        )
    return "\n".join(rows) + "\n"


def _slug(heading: str) -> str:
    return re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-"))


def _section_heading(section: type[BaseModel], found: Found) -> str:
    return f"`{found.sections[section].name}`"


def _anchor(section: type[BaseModel]) -> str:
    return _slug(_section_heading(section, find()))


def _heading(role: type[Method]) -> str:
    return f"Role: {role.role}"


# ----------------------------------------------------------------------------- page


def page() -> str:
    """The whole page."""
    found = find()
    parts = [_INTRO, block(FederationConfig().model_dump(mode="json")), "\n## Top\n\n"]
    parts.append(text_of(FederationConfig.__doc__) + "\n\n")
    parts.append(table(FederationConfig, list(FederationConfig.model_fields)))
    for section, place in found.sections.items():
        parts.append(f"\n## `{place.name}`\n\n{text_of(section.__doc__)}\n\n")
        parts.append(table(section, list(section.model_fields)))
    for role, places in found.roles.items():
        parts += _role(role, places)
    return "".join(parts)


def _role(role: type[Method], places: list[Place]) -> Iterator[str]:
    kinds = kinds_of(role)
    where = ", ".join(f"`{place.name}`" for place in places)
    names = ", ".join(f"`{kind_of(method)}`" for method in kinds)
    yield f"\n## {_heading(role)}\n\nStands at {where}. Kinds: {names}.\n\n"
    common = [name for name in role.model_fields if name != "kind"]
    if common:
        yield f"{text_of(role.__doc__)}\nEvery kind has these fields:\n\n"
        yield table(role, common)
    for method in kinds:
        yield f"\n### {role.role} `{kind_of(method)}`\n\n"
        yield f"{text_of(method.__doc__)}\n\n{_citation(method)}\n\n"
        own = [name for name in method.model_fields if _is_own(method, name, role)]
        yield table(method, own) or "It has no settings of its own.\n"
        place = _at_home(places[0], method)
        yield f"\n{block(place.nest(plain_all(method.example())))}"


def _at_home(place: Place, method: type[Method]) -> Place:
    """The place in the recipe of the same name, where there is one."""
    algorithm, kind = ("algorithm",), kind_of(method)
    if place.path == algorithm or kind not in map(kind_of, kinds_of(AlgorithmConfig)):
        return place
    return Place(place.path, {**place.kinds, algorithm: kind})


def _citation(method: type[Method]) -> str:
    """The head of the method's file: authors, title, venue, and where it departs."""
    return text_of(sys.modules[method.__module__].__doc__)


def _is_own(method: type[Method], name: str, role: type[Method]) -> bool:
    """Whether a method adds a field, or gives it another default than its role."""
    if name == "kind":
        return False
    of_role = role.model_fields.get(name)
    return of_role is None or default_of(of_role) != default_of(
        method.model_fields[name]
    )


def plain_all(method: Method) -> Any:
    """A method with all its settings, if they fit; else with its kind alone."""
    if methods_in(type(method)):
        return plain(method)
    return method.model_dump(mode="json")


def methods_in(method: type[Method]) -> bool:
    """Whether a method is made of others."""
    return any(role_of(info) is not None for info in method.model_fields.values())


# -------------------------------------------------------------------------- metrics

_BEGIN, _END = (
    "<!-- metrics: fedserver/view/web/metrics.py -->\n",
    "<!-- end of metrics -->",
)


def metrics_table() -> str:
    """The metrics of a server as a table."""
    rows = ["| metric | type | what it says | labels |", "| --- | --- | --- | --- |"]
    for metric in METRICS:
        told = " and ".join(f"`{label}`" for label in metric.labels)
        values = metric.values or ", ".join(metric.known)
        rows.append(
            f"| `{metric.name}` | {metric.kind} | {metric.help} "
            f"| {told}{': ' if told else ''}{values} |"
        )
    return "\n".join(rows) + "\n"


def with_metrics(text: str) -> str:
    """A page with the table of metrics between its two marks."""
    before, _, rest = text.partition(_BEGIN)
    return f"{before}{_BEGIN}{metrics_table()}{_END}{rest.partition(_END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    OPERATIONS.write_text(
        with_metrics(OPERATIONS.read_text(encoding="utf-8")), encoding="utf-8"
    )
