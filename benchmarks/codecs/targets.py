"""The targets of the codecs, and whether they reach them."""

from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.codecs.codec import Measured
from benchmarks.codecs.ours import GAUSSIAN_K, TOP_K
from fedcore.typing import JSON


class Target(NamedTuple):
    """A bound, and what was found; the worst of all vectors."""

    text: str
    found: float
    bound: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        """Whether the bound is kept."""
        return self.found >= self.bound if self.at_least else self.found <= self.bound

    def __str__(self) -> str:
        """The text, the figure and the verdict."""
        sign, verdict = "≥" if self.at_least else "≤", "met" if self.met else "NOT MET"
        return f"{self.text} {sign} {self.bound:g}: {self.found:.3g}, {verdict}"

    def to_json(self) -> JSON:
        """The same for a file."""
        found = float(f"{self.found:.3g}")
        return {"target": self.text, "bound": self.bound, "found": found} | {
            "met": self.met
        }


Speeds = dict[str, Measured]  # of one vector, by codec


def speed_targets(each: Sequence[Speeds], dim: int) -> list[Target]:
    """Those in passes, of vectors of one size."""

    def worst(name: str, *stages: str) -> float:
        return max(speeds[name].time(*stages) for speeds in each)

    of = f"of {dim:,} values"
    found = [
        Target(f"{name} {of}, encode + decode", worst(name, "encode", "decode"), 4)
        for name in each[0]
        if name.startswith(("sign", "uniform", "qsgd"))
    ]
    found += [
        Target(f"{name} {of}, encode", worst(name, "encode"), 8)
        for name in GAUSSIAN_K
        if name in each[0]
    ]
    if TOP_K in each[0]:
        found.append(Target(f"{TOP_K} {of}, encode", worst(TOP_K, "encode"), 20))
    return found
