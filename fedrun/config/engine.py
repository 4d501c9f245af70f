"""The section ``simulate.engine``: how a simulation is computed."""

from typing import Literal

from pydantic import Field, model_validator

from fedcore.config import Config, Count, Device


class EngineConfig(Config):
    """Which engine; the same seed gives the same federation in each of them."""

    kind: Literal["stacked", "exact", "ray"] = "stacked"
    """Stacked trains many clients at once, with results equal to float tolerance.
    Exact trains them one by one with the whole protocol, bit for bit as deployed, and
    keeps every update in the journal. Ray is stacked, on actors of a Ray cluster."""
    stack: Count = 1024
    """The largest number of tasks computed at a time; fewer for large models."""
    processes: Count = 1
    """stacked: the number of processes that share the tasks. More than one helps if
    training takes most of the time, as it does for large models."""
    actors: Count = 2
    """ray: the number of actors that share the tasks."""
    device: Device = "cpu"
    """The device that computes stacks: cpu, cuda, cuda:1, mps or auto."""
    memory_bytes: int = Field(default=1 << 30, ge=0)
    """Bytes of the clients' states that stay in memory between tasks; the rest goes to
    temporary files."""
    snapshot_seconds: float = Field(default=60.0, gt=0)
    """Real seconds between snapshots, from which a killed run resumes. A run that is
    interrupted writes one more."""

    @model_validator(mode="after")
    def _fits_the_kind(self) -> "EngineConfig":
        for name, kind in (("processes", "stacked"), ("actors", "ray")):
            default = type(self).model_fields[name].default
            if self.kind != kind and getattr(self, name) != default:
                raise ValueError(
                    f"{name} belongs to kind {kind}, and the kind is {self.kind}"
                )
        return self

    @property
    def is_shared(self) -> bool:
        """Whether other processes compute."""
        return self.kind == "ray" or self.processes > 1
