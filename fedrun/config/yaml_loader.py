"""Reads YAML as plain data: texts, numbers, truth values, lists, and keys with values.

What somebody else has written may be built to fill memory: aliases of aliases, endless
nesting, numbers of thousands of digits. So all of it is counted. Keys are texts, and
what looks like a date or a time is a text as well.
"""

import re
from collections.abc import Hashable
from typing import Any, NoReturn

import yaml

from fedcore.text import brief

MOST_LEVELS = 50  # lists and sections in each other
MOST_VALUES = 100_000  # what an alias stands for counts each time
_WIDEST = 40  # characters of a number
_TAG = "tag:yaml.org,2002:"
_PLAIN = ("null", "bool", "int", "float", "str", "seq", "map")
_INT = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$")
_FLOAT = re.compile(
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?"
    r"|\.(?:inf|Inf|INF))$|\.(?:nan|NaN|NAN)$"
)


def read_yaml(text: str) -> Any:
    """Returns what a YAML text says.

    Raises:
        YAMLError: it is no YAML, or no plain data of a usual size.
    """
    return _safely(yaml.load, text)


def compose_yaml(text: str) -> yaml.Node | None:
    """Returns the nodes of a YAML text, which know their lines; None of an empty one.

    Raises:
        YAMLError: it is no YAML.
    """
    found: yaml.Node | None = _safely(yaml.compose, text)
    return found


def _safely(read: Any, text: str) -> Any:
    try:
        return read(text, Loader=_Loader)
    except (ValueError, OverflowError, LookupError) as error:
        # Of an escape such as \UFFFFFFFF, or of !!bool maybe.
        raise yaml.YAMLError(f"an impossible value: {brief(str(error))}") from error


class _Loader(yaml.SafeLoader):
    """Makes plain data, and refuses two values under one key."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._levels = self._values = 0
        self._sizes: dict[yaml.Node | None, int] = {}  # of nodes that are whole

    def compose_node(self, parent: Any, index: Any) -> yaml.Node | None:
        """Composes a node, and counts it."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        before = self._values
        if isinstance(event, yaml.AliasEvent):
            node = super().compose_node(parent, index)
            if node not in self._sizes:
                _refuse(event, f"*{brief(str(event.anchor))} is a part of itself")
            self._count(event, self._sizes[node])
            return node
        self._levels += 1
        if self._levels > MOST_LEVELS:
            _refuse(event, f"more than {MOST_LEVELS} lists and sections in each other")
        self._count(event, 1)
        node = super().compose_node(parent, index)
        self._sizes[node] = self._values - before
        self._levels -= 1
        return node

    def _count(self, event: Any, more: int) -> None:
        self._values += more
        if self._values > MOST_VALUES:
            _refuse(event, f"more than {MOST_VALUES:,} values")

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, Any]:
        """Returns a section, whose keys are texts."""
        seen = set()
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        for key, _ in pairs:
            if not isinstance(key, yaml.ScalarNode):
                _refuse(key, "a key is a text, and no list and no section")
            if key.value in seen:
                _refuse(key, f"{brief(key.value)!r} is there twice")
            seen.add(key.value)
            if key.tag != f"{_TAG}merge":
                key.tag = f"{_TAG}str"
        return super().construct_mapping(node, deep)

    def construct_yaml_str(self, node: yaml.ScalarNode) -> str:
        """Returns a text."""
        text = str(self.construct_scalar(node))
        if "\0" in text or any("\ud800" <= mark <= "\udfff" for mark in text):
            _refuse(node, "a text holds a character that no text can have")
        return text

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """Returns a whole number."""
        _require_short(node)
        return int(super().construct_yaml_int(node))

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        """Returns a number."""
        _require_short(node)
        return float(super().construct_yaml_float(node))


def _require_short(node: yaml.ScalarNode) -> None:
    if len(node.value) > _WIDEST:
        _refuse(node, f"{brief(node.value, _WIDEST)} has too many digits")


def _refuse(where: Any, problem: str) -> NoReturn:
    raise yaml.MarkedYAMLError(problem=problem, problem_mark=where.start_mark)


_Loader.yaml_constructors = {
    None: yaml.SafeLoader.construct_undefined,
    **{f"{_TAG}{kind}": getattr(_Loader, f"construct_yaml_{kind}") for kind in _PLAIN},
}
_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag.removeprefix(_TAG) in ("null", "bool", "merge")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(f"{_TAG}float", _FLOAT, list("-+0123456789."))
_Loader.add_implicit_resolver(f"{_TAG}int", _INT, list("-+0123456789"))
