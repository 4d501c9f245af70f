"""The pairs of codecs that are compared, and how a user names others.

A codec has a short name, ``top_k:ratio=0.01``, or is written as YAML, ``{kind: top_k,
ratio: 0.01}``. An uplink with a short name gets an error memory if it is a contraction;
one that is written as YAML is used as it is. The server keeps the downlink's memory, so
a downlink never names one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from fedcore.algorithm import AlgorithmConfig
from fedcore.compressors import CompressorConfig, ErrorFeedback, Identity
from fedcore.config import Method, kind_of
from fedcore.errors import ConfigError
from fedrun.config import FederationConfig, parse_config
from fedrun.config.load import read_value
from fedrun.config.yaml_text import one_line
from fedstudies.typed import split

# Each uplink with the downlinks that it is tried with.
GRID: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("cast", ("cast",)),
    ("natural", ("natural",)),
    ("uniform:bits=8", ("uniform:bits=8",)),
    ("uniform:bits=4", ("uniform:bits=4", "dead_zone:ratio=0.1")),
    ("uniform:bits=2", ("uniform:bits=2", "dead_zone:ratio=0.1")),
    ("qsgd:bits=4", ("uniform:bits=4",)),
    ("sign_l1", ("sign_l1", "dead_zone:ratio=0.1")),
    ("rotation", ("rotation", "dead_zone:ratio=0.1")),
    ("random_k:ratio=0.1", ("dead_zone:ratio=0.1",)),
    ("cyclic", ("cyclic",)),
    ("low_rank", ("low_rank", "dead_zone:ratio=0.1")),
    ("semi_discrete:bits=1", ("semi_discrete:bits=1", "dead_zone:ratio=0.1")),
    ("semi_discrete:bits=0.3", ("semi_discrete:bits=0.5", "dead_zone:ratio=0.1")),
    ("semi_discrete:bits=0.1", ("cyclic:ratio=0.2",)),
    (
        "per_tensor:inner.kind=stc,inner.ratio=0.05,exact_below=64",
        ("dead_zone:ratio=0.1",),
    ),
    ("stc:ratio=0.05", ("stc:ratio=0.1", "dead_zone:ratio=0.1")),
    ("gaussian_k:ratio=0.03", ("dead_zone:ratio=0.1",)),
    ("top_k:ratio=0.1", ("top_k:ratio=0.1",)),
    ("top_k:ratio=0.03", ("top_k:ratio=0.1",)),
    ("top_k:ratio=0.01", ("top_k:ratio=0.05",)),
    ("dead_zone:ratio=0.1", ("dead_zone:ratio=0.1", "stc:ratio=0.1")),
    ("dead_zone:ratio=0.03", ("dead_zone:ratio=0.1",)),
    ("dead_zone:ratio=0.01", ("dead_zone:ratio=0.05",)),
)

Side = Literal["uplink", "downlink"]


class Pair(NamedTuple):
    """A codec for each direction."""

    uplink: CompressorConfig
    downlink: CompressorConfig

    @property
    def names(self) -> tuple[str, str]:
        """The names that a user would type."""
        return uplink_name(self.uplink), short(self.downlink)

    def yaml(self, kind: str | None = None) -> str:
        """Returns the lines that choose this pair; with ``kind``, a whole section."""
        lines = ["algorithm:"]
        if kind is not None:
            lines.append(f"  kind: {kind}")
        for side, method in zip(self._fields, self, strict=True):
            lines.append(f"  {side}: {one_line(plain(method))}")
        return "\n".join(lines)

    def __str__(self) -> str:
        """Both names in a few words."""
        return "{} up, {} down".format(*self.names)


UNCOMPRESSED = Pair(Identity(), Identity())


def pairs_of(
    config: FederationConfig, uplinks: Sequence[str] = (), downlinks: Sequence[str] = ()
) -> list[Pair]:
    """Returns the pairs to compare, the uncompressed one first.

    Args:
        config: the federation. Its own pair is compared if no candidates are given.
        uplinks: candidates for the uplink. Each one is tried with each downlink.
        downlinks: candidates for the downlink. A direction without candidates stays
            as in the config. Without any candidates, the pairs are those of the grid.

    Raises:
        ConfigError: a candidate is not a codec, or does not fit the federation.
    """
    algorithm = config.algorithm
    if algorithm.uplink.holds == "changes":
        raise ConfigError(
            "the recipe ef21 cannot be compared with uncompressed pairs, since its "
            "server adds up changes; compare its runs with those of fedsim run"
        )
    if uplinks or downlinks:
        ups = [candidate("uplink", text, algorithm) for text in uplinks]
        downs = [candidate("downlink", text, algorithm) for text in downlinks]
        product = [
            Pair(up, down)
            for up in ups or [algorithm.uplink]
            for down in downs or [algorithm.downlink]
        ]
        return _distinct([UNCOMPRESSED, *product])
    grid = [
        Pair(candidate("uplink", up, algorithm), candidate("downlink", down, algorithm))
        for up, downs_of_it in GRID
        for down in downs_of_it
    ]
    return _distinct([UNCOMPRESSED, Pair(algorithm.uplink, algorithm.downlink), *grid])


def _distinct(pairs: Iterable[Pair]) -> list[Pair]:
    seen: dict[str, Pair] = {}
    for pair in pairs:
        seen.setdefault(str([method.model_dump() for method in pair]), pair)
    return list(seen.values())


def candidate(side: Side, text: str, algorithm: AlgorithmConfig) -> CompressorConfig:
    """Returns the codec that a user named.

    Args:
        side: ``uplink`` or ``downlink``.
        text: its short name or its YAML.
        algorithm: the algorithm that it must fit.

    Raises:
        ConfigError: there is no such codec, or it does not fit.
    """
    source = f"--{side} {text}"
    in_short = not text.lstrip().startswith("{")
    given = _from_short(source, text) if in_short else read_value(source, text)
    raw = {"algorithm": {"kind": kind_of(type(algorithm)), side: given}}
    method: CompressorConfig = getattr(parse_config(raw, source).algorithm, side)
    if side == "uplink" and in_short and _wants_memory(method):
        return ErrorFeedback(inner=method)
    return method


def _wants_memory(method: CompressorConfig) -> bool:
    """Returns whether the method leaves something out that a memory can hold."""
    holds_nothing = method.holds == "nothing" and not method.is_exact
    return holds_nothing and method.bias == "contraction"


def _from_short(source: str, text: str) -> dict[str, Any]:
    """Reads ``kind:field=value,field.field=value``, where the values are YAML."""
    kind, _, settings = text.strip().partition(":")
    given: dict[str, Any] = {"kind": kind}
    for setting in filter(None, split(settings)):
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise ConfigError(
                f"{source}: expected kind:field=value, such as top_k:ratio=0.01"
            )
        place: Any = given
        *parents, last = name.strip().split(".")
        for parent in parents:
            place = place.setdefault(parent, {})
            if not isinstance(place, dict):
                raise ConfigError(f"{source}: {parent!r} is a value, not a section")
        place[last] = read_value(source, value)
    return given


# ----------------------------------------------------------------------------- names


def plain(method: Method) -> dict[str, Any]:
    """Returns a method as plain data: its kind and the fields that were set."""
    given: dict[str, Any] = {"kind": kind_of(type(method))}
    for name in type(method).model_fields:
        if name in method.model_fields_set and name != "kind":
            value = getattr(method, name)
            given[name] = plain(value) if isinstance(value, Method) else value
    return given


def uplink_name(method: CompressorConfig) -> str:
    """Returns the short name of an uplink if that means the same, else its YAML."""
    if isinstance(method, ErrorFeedback):
        usual = ErrorFeedback(inner=method.inner)
        as_usual = usual.model_dump() == method.model_dump()
        inner = method.inner
        return short(inner if as_usual and _wants_memory(inner) else method)
    return one_line(plain(method)) if _wants_memory(method) else short(method)


def short(method: CompressorConfig) -> str:
    """Returns the short name of a codec, such as ``top_k:ratio=0.01``."""
    (_, kind), *settings = _leaves(plain(method), "")
    return f"{kind}:{','.join(f'{k}={v}' for k, v in settings)}".removesuffix(":")


def _leaves(given: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    for name, value in given.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", one_line(value)
