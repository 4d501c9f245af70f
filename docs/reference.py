"""Writes ``docs/api.md`` from the docstrings of ``latecomer``."""

import enum
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_overloads

import latecomer
from docs.generate import text_of

PAGE = Path(__file__).parent / "api.md"
_INTRO = """# API reference

What `latecomer` has, from its docstrings. This page is generated from the program;
[Your code](user_code.md) shows how the parts are used. A class has the methods of the
class that it extends, which are described there.
"""
_BLOCKS = ("Args", "Attributes", "Returns", "Raises", "Yields", "Example")
_HEAD = re.compile(rf"^({'|'.join(_BLOCKS)}):$", re.MULTILINE)


def page() -> str:
    """Returns the whole page: the names of the package, then those of its modules."""
    parts, modules = [_INTRO], []
    for name in dir(latecomer):
        found = getattr(latecomer, name)
        if isinstance(found, ModuleType):
            modules.append((name, found))
        else:
            parts.append(_entry("##", f"latecomer.{name}", found))
    for name, module in modules:
        parts.append(f"\n## `latecomer.{name}`\n\n{text_of(module.__doc__)}\n")
        for member in sorted(vars(module)):
            found = getattr(module, member)
            if not member.startswith("_") and _is_documented(found):
                parts.append(_entry("###", f"latecomer.{name}.{member}", found))
    return "".join(parts)


def _is_documented(found: Any) -> bool:
    return inspect.isclass(found) or inspect.isfunction(found)


def _entry(level: str, name: str, found: Any) -> str:
    """Returns a chapter: the name, how it is called, and what it does."""
    calls = get_overloads(vars(found).get("__new__", found))
    short = name.rpartition(".")[2]
    heads = [f"{short}{_signature(call)}" for call in calls or [found]]
    parts = [f"\n{level} `{name}`\n\n"]
    parts += [f"`{head}`\n\n" for head in heads if head != f"{short}()"]
    parts.append(_body(found.__doc__))
    if inspect.isclass(found):
        parts += _members(found)
    return "".join(parts)


def _members(cls: type) -> Iterator[str]:
    """Yields the public methods and properties that no documented base has."""
    public = [base for base in cls.__mro__[1:] if _is_ours(base)]
    if public:
        yield f"\nExtends `{public[0].__name__}`.\n"
    known = {name for base in public for name in dir(base)}
    for name, member in vars(cls).items():
        target = member.func if hasattr(member, "func") else member
        target = member.fget if isinstance(member, property) else target
        if isinstance(member, classmethod | staticmethod):
            target = member.__func__
        is_public = inspect.isfunction(target) and not name.startswith("_")
        if is_public and name not in known and target.__doc__ and not _is_enum(cls):
            is_call = target is member or isinstance(member, classmethod | staticmethod)
            told = f"{name}{_signature(target)}" if is_call else name
            yield f"\n**`{told}`**: {_body(target.__doc__)}"


def _is_ours(cls: type) -> bool:
    return getattr(latecomer, cls.__name__, None) is cls


def _is_enum(cls: type) -> bool:
    return issubclass(cls, enum.Enum)


def _signature(found: Any) -> str:
    """Names and defaults of the parameters; types are in the text."""
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):
        return ""
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
        if parameter.name not in ("self", "cls") and parameter.annotation is not None
    ]
    told = str(signature.replace(parameters=plain, return_annotation=signature.empty))
    return re.sub(r"<factory>|<function \S+ at 0x\w+>", "...", told)


def _body(doc: str | None) -> str:
    """A docstring in Google's form as Markdown."""
    pieces = _HEAD.split(inspect.cleandoc(doc or ""))
    parts = [text_of(pieces[0])]
    for head, block in zip(pieces[1::2], pieces[2::2], strict=True):
        if head == "Example":
            text = inspect.cleandoc(block)
            is_code = text.startswith(">>>")
            parts.append(f"```pycon\n{text}\n```" if is_code else text_of(text))
        else:
            parts.append(f"**{head}**\n\n{_items(inspect.cleandoc(block))}")
    return "\n\n".join(parts) + "\n"


def _items(block: str) -> str:
    """``name: text`` in a list, with what is indented under each."""
    entries = re.split(r"\n(?=\S)", block)
    lines = []
    for entry in entries:
        flat = " ".join(entry.split())
        name, colon, text = flat.partition(": ")
        if colon and re.fullmatch(r"[\w.*]+", name):
            lines.append(f"- `{name}`: {text_of(text)}")
        else:
            lines.append(f"- {text_of(flat)}")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
