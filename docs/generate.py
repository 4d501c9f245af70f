"""Writes ``docs/configuration/`` from the settings: ``make configuration``.

Nothing is listed here by hand, but on which page a section stands. The sections are the
fields of the federation's config, and the methods of a role are those that are
registered. A field that several methods inherit is described once on its page.
"""

import inspect
import re
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
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

FOLDER = Path(__file__).parent / "configuration"
OPERATIONS = FOLDER.with_name("operations.md")
INDEX = "index"
# The sections of the top that have a page, and those that stand with them. All others
# stand on the first page, and those of a role on the page of the role.
PAGES = {
    "server": ("The server", ("server", "journal", "timeouts")),
    "evaluate": ("Evaluation and the end of a run", ("evaluate", "stop")),
    "simulate": ("The simulated population", ("simulate",)),
}
_INTRO = """# Configuration

One YAML describes a federation, for the server and the simulator alike. Clients need
none: the server tells them. A setting that the file leaves out has the default given
here. `fedserver check federation.yaml` prints all settings, or every wrong one at once.
`--set algorithm.buffer=8` changes a single field; setting a `kind` clears the other
settings of that method, except for that of `algorithm` itself.

These pages are generated from the program. Each field is followed by its type and its
default.

## In an editor

`fedserver schema -o federation.schema.json` writes a JSON schema of this file. With
this line at its top, an editor completes each `kind` and its fields, shows what they
are, and marks mistakes. VS Code needs the extension "YAML" for it; other editors need a
YAML language server. `--methods FILE` adds methods of your own.

```yaml
# yaml-language-server: $schema=federation.schema.json
```

## Pages

"""
_RECIPES = """The kind alone is enough. The YAML of each recipe shows the defaults by
which it differs from the shared ones.

"""
_WHOLE = """
## The whole file

All of it, with the default algorithm and its defaults:

"""
_HEAD = 90  # words
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


_read = cache(descriptions)


@cache
def find() -> Found:
    """Returns what the config has, walked from its top."""
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
                usual = [type(default)] if isinstance(default, Method) else []
                for method in (role, *usual, *kinds_of(role)):
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


def type_of(annotation: Any, metadata: list[Any], page: str = INDEX) -> str:
    """Returns a type with its range, in words, with links from a page to sections."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_of(parts[0], [*parts[1:], *metadata], page)
    if origin is Literal:
        return " or ".join(f"`{flow(part)}`" for part in parts)
    if origin in (Union, types.UnionType):
        given = [type_of(part, [], page) for part in parts if part is not type(None)]
        return " or ".join([*given, "`null`"] if type(None) in parts else given)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return (
            f"mapping of {type_of(parts[0], [], page)} to {type_of(parts[1], [], page)}"
        )
    if origin is tuple:
        return f"list of {type_of(parts[0], [], page)}"
    names = {int: "whole number", float: "number", str: "text", bool: "true or false"}
    names[Path] = "path"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        place = find().sections[annotation]
        return _link("section", page_of_section(place), page, _slug(place.name))
    return " ".join([names[annotation], *bounds(metadata)])


def bounds(metadata: list[Any]) -> Iterator[str]:
    """Yields the limits of a number."""
    flat: list[Any] = []
    for mark in metadata:
        flat += mark.metadata if isinstance(mark, FieldInfo) else [mark]
    limits = [
        f"{sign} {getattr(mark, name)}"
        for name, sign in _BOUNDS.items()
        for mark in flat
        if hasattr(mark, name)
    ]
    if limits:
        yield ", ".join(limits)


def default_of(info: FieldInfo) -> str:
    """Returns a field's default."""
    if info.is_required():
        return "must be given"
    value = info.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "must be given"
    if isinstance(value, BaseModel) and not isinstance(value, Method):
        return "its defaults"
    return f"`{flow(value)}`"


def description_of(model: type[BaseModel], name: str) -> str:
    """Returns what a field is; an overridden one is what it was in the base."""
    for cls in model.__mro__:
        if issubclass(cls, Config) and name in (said := _read(cls)):
            return cell(said[name])
    section = _section_in(model.model_fields[name].annotation)
    return cell((section.__doc__ or "").partition("\n\n")[0]) if section else ""


# ----------------------------------------------------------------------------- text


def text_of(doc: str | None) -> str:
    """Returns a docstring as Markdown."""
    lines = inspect.cleandoc(doc or "").splitlines()
    is_code = [line.startswith("    ") for line in lines]
    groups = groupby(zip(is_code, lines, strict=True), key=lambda pair: pair[0])
    return "\n".join(
        _escape("\n".join(line for _, line in pairs), code) for code, pairs in groups
    )


def _escape(text: str, is_code: bool) -> str:
    """Returns a text whose signs Markdown leaves alone, unless it is code."""
    if is_code:
        return text
    text = re.sub(r":\w+:`~?([^`]+)`", r"``\1``", text)
    parts = re.split(r"(``[^`]+``)", text)
    return "".join(
        part if part.startswith("``") else re.sub(r"([*_<>\[\]|$])", r"\\\1", part)
        for part in parts
    )


def cell(doc: str) -> str:
    """Returns a docstring for a cell of a table."""
    return " ".join(text_of(doc).split())


def fields(model: type[BaseModel], names: Iterable[str], page: str) -> str:
    """Returns the fields of a section or method as a list on a page."""
    return "".join(
        f"- `{name}` ({_type_in(model.model_fields[name], page)}; "
        f"{default_of(model.model_fields[name])}): {description_of(model, name)}\n"
        for name in names
    )


def _type_in(info: FieldInfo, page: str) -> str:
    """Returns a field's type, with links from a page to roles and sections."""
    role = role_of(info)
    if role is None:
        return type_of(info.annotation, info.metadata, page)
    kind = _link(role.role.replace("_", " "), page_of(role), page)
    if get_origin(info.annotation) is tuple:
        return f"list of {kind}"
    return kind if role is info.annotation else f"{kind} or `null`"


def _link(words: str, target: str, page: str, anchor: str = "") -> str:
    """Returns a link from one page to another, or the words where it is the same."""
    if target == page:
        return f"[{words}](#{anchor})" if anchor else words
    return f"[{words}]({target}.md{'#' if anchor else ''}{anchor})"


def _slug(heading: str) -> str:
    return re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-"))


# ---------------------------------------------------------------------------- pages


def page_of(role: type[Method]) -> str:
    """Returns the name of a role's page: that of the package of its methods."""
    return kinds_of(role)[0].__module__.split(".")[1]


def page_of_section(place: Place) -> str:
    """Returns the name of the page on which a section stands."""
    if place.path[0] == "algorithm":
        _, role = max(
            (len(each.path), page_of(role))
            for role, places in find().roles.items()
            for each in places
            if place.path[: len(each.path)] == each.path
        )
        return role
    tops = (name for name, (_, tops) in PAGES.items() if place.path[0] in tops)
    return next(tops, INDEX)


def title_of(role: type[Method]) -> str:
    """Returns the title of a role's page."""
    name = role.role.replace("_", " ").capitalize()
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"


def pages() -> dict[str, str]:
    """Returns all pages by their names."""
    made = {INDEX: _index()}
    for name, (title, _) in PAGES.items():
        made[name] = f"# {title}\n" + "".join(_sections(name))
    for role, places in find().roles.items():
        made[page_of(role)] = "".join(_role(role, places))
    return made


def _index() -> str:
    parts = [_INTRO]
    sections = {place.name: section for section, place in find().sections.items()}
    for name, (title, tops) in PAGES.items():
        lead = " ".join(cell(sections[top].__doc__ or "") for top in tops)
        parts.append(f"- [{title}]({name}.md): {lead}\n")
    parts += [
        f"- [{title_of(role)}]({page_of(role)}.md): {_lead(role)}\n"
        for role in find().roles
    ]
    parts += [_WHOLE, block(FederationConfig().model_dump(mode="json"))]
    parts.append(f"\n## Top level\n\n{text_of(FederationConfig.__doc__)}\n\n")
    parts.append(fields(FederationConfig, FederationConfig.model_fields, INDEX))
    return "".join([*parts, *_sections(INDEX)])


def _sections(page: str) -> Iterator[str]:
    """Yields the sections of the config that stand on a page."""
    for section, place in find().sections.items():
        if page_of_section(place) == page:
            yield f"\n## `{place.name}`\n\n{text_of(section.__doc__)}\n\n"
            yield fields(section, section.model_fields, page)


def _lead(role: type[Method]) -> str:
    """Returns what a role is for: the first sentence of its contract."""
    head = (sys.modules[role.__module__].__doc__ or "").partition("\n\n")[0]
    contract, colon, lead = head.partition(": ")
    told = lead if colon and contract.startswith("The contract") else role.__doc__ or ""
    told = cell(told)
    return told[0].upper() + told[1:]


def _role(role: type[Method], places: list[Place]) -> Iterator[str]:
    """Yields the page of a role: its methods, what they share, and each of them."""
    kinds, page = kinds_of(role), page_of(role)
    where = ", ".join(f"`{place.name}`" for place in places)
    yield f"# {title_of(role)}\n\n{_lead(role)} In the YAML: {where}.\n\n"
    if role is AlgorithmConfig:
        yield _RECIPES
    yield "| kind | |\n| --- | --- |\n"
    for method in kinds:
        summary = cell((method.__doc__ or "").partition("\n\n")[0])
        yield f"| [`{kind_of(method)}`](#{kind_of(method)}) | {summary} |\n"
    shared = shared_fields(role)
    if shared:
        yield "\n## Shared fields\n"
    for users, owners in shared.items():
        told = ", ".join(f"`{kind_of(user)}`" for user in users)
        yield f"\n{'All kinds' if len(users) == len(kinds) else told}:\n\n"
        yield "".join(fields(owner, [name], page) for name, owner in owners.items())
    yield from _sections(page)
    for method in kinds:
        yield f"\n## `{kind_of(method)}`\n\n"
        yield from _method(method, role, places)


def _method(
    method: type[Method], role: type[Method], places: list[Place]
) -> Iterator[str]:
    """Yields what a method is, its fields, and an example that says more."""
    yield f"{_citation(method)}\n"
    yield from _more(method)
    known = {"kind", *inherited_fields(method, role)}
    own = [name for name in method.model_fields if name not in known]
    if own:
        yield f"\n{fields(method, own, page_of(role))}"
    yield from _inherited(method, role, places[0])
    if says_more(method):
        yield f"\n{block(example_of(method, places))}"


def _inherited(method: type[Method], role: type[Method], place: Place) -> Iterator[str]:
    """Yields what a method has of the shared fields, and where it differs in them."""
    inherited = inherited_fields(method, role)
    few = {
        name
        for users, owners in shared_fields(role).items()
        if len(users) < len(kinds_of(role))
        for name in owners
    }
    named = ", ".join(f"`{name}`" for name in inherited if name in few)
    if named:
        yield f"\nAlso [shared](#shared-fields): {named}.\n"
    changed = changed_defaults(method, role)
    if changed and role is AlgorithmConfig:
        yield f"\n{block(place.nest({'kind': kind_of(method), **changed}))}"
    elif changed:
        yield f"\nOther defaults: `{flow(changed)}`.\n"
    for name, owner in inherited.items():
        kind = _type_in(method.model_fields[name], page_of(role))
        if kind != _type_in(owner.model_fields[name], page_of(role)):
            yield f"\n`{name}` is a {kind} here.\n"


@cache
def shared_fields(
    role: type[Method],
) -> dict[tuple[type[Method], ...], dict[str, type[Method]]]:
    """Returns the fields that methods inherit, by the methods that do.

    With each is the class that has it, and its default.
    """
    found: dict[tuple[type[Method], ...], dict[str, type[Method]]] = {}
    kinds = kinds_of(role)
    bases = dict.fromkeys(base for m in kinds for base in reversed(m.__mro__))
    for base in bases:
        if issubclass(base, role) and base not in kinds:
            users = tuple(method for method in kinds if issubclass(method, base))
            for name in base.model_fields:
                is_new = all(
                    name not in owners
                    for having, owners in found.items()
                    if set(users) <= set(having)
                )
                if is_new and name != "kind":
                    found.setdefault(users, {})[name] = base
    return found


def inherited_fields(
    method: type[Method], role: type[Method]
) -> dict[str, type[Method]]:
    """Returns the fields of a method that its page describes once for several."""
    return {
        name: owner
        for users, owners in shared_fields(role).items()
        if method in users
        for name, owner in owners.items()
        if description_of(method, name) == description_of(owner, name)
    }


def changed_defaults(method: type[Method], role: type[Method]) -> dict[str, Any]:
    """Returns the inherited fields that have another default in a method."""
    return {
        name: plain(method.model_fields[name].get_default(call_default_factory=True))
        for name, owner in inherited_fields(method, role).items()
        if default_of(method.model_fields[name]) != default_of(owner.model_fields[name])
    }


def says_more(method: type[Method]) -> bool:
    """Returns whether a method's example shows what its fields do not.

    It does if it sets a list, or a field that has no value otherwise.
    """
    example = method.example()
    given = {name: method.model_fields[name] for name in example.model_fields_set}
    return any(
        info.get_default() in (None, (), PydanticUndefined)
        for name, info in given.items()
        if name != "kind"
    )


def example_of(method: type[Method], places: list[Place]) -> Any:
    """Returns a config with a method and the settings of its example.

    It is the recipe of the same name, where there is one.
    """
    place, algorithm, kind = places[0], ("algorithm",), kind_of(method)
    if place.path != algorithm and kind in map(kind_of, kinds_of(AlgorithmConfig)):
        place = Place(place.path, {**place.kinds, algorithm: kind})
    return place.nest(plain(method.example()))


def _citation(method: type[Method]) -> str:
    """Returns what a method is, and its paper: the head of its file."""
    return text_of(_head_and_rest(method)[0])


def _more(method: type[Method]) -> Iterator[str]:
    """Yields the rest of a method's docstring, and where there is more to read."""
    rest = (method.__doc__ or "").partition("\n\n")[2]
    if rest:
        yield f"\n{text_of(rest)}\n"
    if _head_and_rest(method)[1]:
        file = f"{method.__module__.replace('.', '/')}.py"
        yield f"\n[More](../../{file})\n"


def _head_and_rest(method: type[Method]) -> tuple[str, str]:
    """Returns the docstring of a method's file in two parts.

    The first has whole sentences, of which one names a paper by its year, and at most
    about ``_HEAD`` words.
    """
    doc = (sys.modules[method.__module__].__doc__ or "").strip()
    sentences = re.split(r"(?<=\.)(?=\n\n|\s[A-Z])", doc)
    head = ""
    for sentence in sentences:
        is_full = len(f"{head}{sentence}".split()) > _HEAD
        if is_full and re.search(r"\b(19|20)\d\d\b", head):
            break
        head += sentence
    return head, doc[len(head) :].strip()


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


def main() -> None:
    """Writes all pages, and removes those that are no longer made."""
    made = pages()
    FOLDER.mkdir(exist_ok=True)
    for name, text in made.items():
        (FOLDER / f"{name}.md").write_text(text, encoding="utf-8")
    for page in FOLDER.glob("*.md"):
        if page.stem not in made:
            page.unlink()
    OPERATIONS.write_text(
        with_metrics(OPERATIONS.read_text(encoding="utf-8")), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
