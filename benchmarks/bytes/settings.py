"""The compared ways of sending updates and versions; the first is the reference."""

from dataclasses import dataclass
from typing import Any

from fedcore.recipes import Latecomer

Method = dict[str, Any]

# The share of values that go up and down, in per cent.
_SHARES: dict[str, list[tuple[float, float]]] = {
    "dead_zone": [(3, 0.1), (1.5, 0.1), (1, 0.1), (0.9, 0.1), (1.5, 1.5)],
    "stc": [(2, 0.2)],
    "top_k": [(1, 0.2)],
    "cyclic": [(13, 13)],
}


# Bits of a message for each value of the model, up and down, in semi_discrete.
_BITS = [(0.19, 0.02), (0.11, 0.04), (0.08, 0.01)]


@dataclass(frozen=True, slots=True)
class Setting:
    """Compressors for both directions."""

    name: str
    uplink: Method
    downlink: Method


def sparse(kind: str, up: float, down: float) -> Setting:
    """A compressor that keeps so many per cent, with error memories on both sides."""
    uplink, downlink = ({"kind": kind, "ratio": share / 100} for share in (up, down))
    name = f"{kind} {_short(up)}/{_short(down)} %"
    return Setting(name, _remembered(uplink), downlink)


def semi_discrete(up: float, down: float) -> Setting:
    """Terms that take so many bits a value, with error memories on both sides."""
    name = f"semi_discrete {_short(up)}/{_short(down)} bits"
    return Setting(name, _remembered(_terms(up)), _terms(down))


def _terms(bits: float) -> Method:
    return {"kind": "semi_discrete", "bits": bits}


def _remembered(inner: Method) -> Method:
    return {"kind": "error_feedback", "inner": inner}


def _short(number: float) -> str:
    """.1 and 3."""
    return f"{number:g}".removeprefix("0")


def default() -> Setting:
    """The compressors of the recipe that people get who name none."""
    recipe = Latecomer()
    return Setting("default", recipe.uplink.model_dump(), recipe.downlink.model_dump())


SETTINGS = (
    Setting("uncompressed", {"kind": "identity"}, {"kind": "identity"}),
    default(),
    *(sparse(kind, *both) for kind, rows in _SHARES.items() for both in rows),
    *(semi_discrete(*both) for both in _BITS),
    Setting(
        "semi_discrete .08 bits up, cyclic 19 % down",
        _remembered(_terms(0.08)),
        {"kind": "cyclic", "ratio": 0.19},
    ),
)
