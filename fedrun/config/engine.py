"""How a simulation is computed."""

from typing import Literal

from pydantic import Field

from fedcore.config import Config, Count


class EngineConfig(Config):
    """Which engine; the same seed gives the same federation in each of them."""

    kind: Literal["stacked", "exact"] = "stacked"
    """Stacked: many clients are trained at once, equal to float tolerance. Exact: one
    by one with the whole protocol, bit for bit as deployed, and every update is kept
    in the journal."""
    stack: Count = 1024
    """Tasks that are computed at a time, at most; fewer where models are large."""
    device: str = "cpu"
    """Where stacks are computed, as torch names it: cpu, cuda, cuda:1."""
    memory_bytes: int = Field(default=1 << 30, ge=0)
    """Bytes of what clients keep between tasks that stay in memory; the rest is put
    into temporary files."""
