"""The common parts of both deployments of an app, and their comparison."""

from dataclasses import dataclass

from fedcore.typing import JSON, Seconds

NODES = 4
STEADY = 10  # rounds before anything is killed
TARGET = 0.9  # accuracy
LIMIT: Seconds = 400.0  # for anything that is waited for, on a busy machine


@dataclass(frozen=True, slots=True)
class Steady:
    """What a run took while nothing was killed."""

    first_result: Seconds  # since the first process was started, version 1 evaluated
    updates: int
    per_second: float  # updates, from the first aggregation to the last one
    up: int  # bytes at the proxy between nodes and server, to the server
    down: int  # and from it
    memory: dict[str, float]  # resident megabytes at most, by kind of process
    accuracy: float  # of the last version
    reached: Seconds  # since the first process was started, TARGET was evaluated
    spent: int  # bytes by then, both ways

    def to_json(self) -> JSON:
        """Returns the figures as plain data for the saved result."""
        return {
            "first result": round(self.first_result, 1),
            "updates": self.updates,
            "per second": round(self.per_second, 3),
            "bytes": {"up": self.up, "down": self.down},
            "memory": self.memory,
            "accuracy": round(self.accuracy, 4),
            "target": {"seconds": round(self.reached, 1), "bytes": self.spent},
        }
