"""Synthetic runs: real records in a real journal, told one by one."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedcore.coordinator.events import (
    Closed,
    Decided,
    Departed,
    Enrolled,
    Evaluated,
    Evicted,
    HistoryForked,
    Leased,
    Lost,
    Readmitted,
    Record,
    ServerStarted,
    ServerStopped,
    Stepped,
)
from fedcore.labels import counts_array
from fedcore.params import ParamSpec, digest
from fedcore.protocol import Verdict
from fedrun.config import parse_config
from fedrun.journal import Configured, Journal

DIM = 100
SOON_LOST = {"timeouts": {"heartbeat": 0.2, "lost": 0.5}}


@dataclass
class Story:
    """What happened in a run; :meth:`write` makes the folder of it."""

    config: dict[str, Any] = field(default_factory=dict)
    run_id: str = "0123456789abcdef"
    records: list[Record] = field(default_factory=list)
    sequence: dict[str, int] = field(default_factory=dict)

    def enrol(
        self, name: str, at: float = 0.0, role: Any = "trainer", cid: str = ""
    ) -> None:
        """A client, or an evaluator, joins."""
        cid = cid or f"id-{name}"
        self.records.append(Enrolled(at=at, cid=cid, name=name, role=role))

    def lease(self, name: str, at: float, version: int = 0, **more: Any) -> None:
        """A task is handed out."""
        told: dict[str, Any] = {
            "cid": f"id-{name}",
            "task": "train",
            "patch": "full",
            "nbytes": 406,
            **more,
        }
        self.records.append(Leased(at=at, version=version, **told))

    def decide(self, name: str, at: float, base: int = 0, **more: Any) -> None:
        """An update arrives and gets its verdict."""
        seq = self.sequence[name] = self.sequence.get(name, 0) + 1
        told: dict[str, Any] = {
            "cid": f"id-{name}",
            "staleness": 0,
            "verdict": Verdict.ACCEPTED,
            "weight": 1.0,
            "reason": "",
            "samples": 10,
            "steps": 5,
            "update_norm": 1.0,
            "memory_norm": 0.5,
            "oldest": None,
            "counts": None,
            "loss": 0.7,
            "nbytes": 40,
            "payload": b"x" * 40,
            **more,
        }
        told["counts"] = counts_array(told["counts"])
        self.records.append(Decided(at=at, seq=seq, digest="", base=base, **told))

    def step(self, version: int, at: float, count: int = 1, gap: float = 0.0) -> None:
        """A version is published."""
        self.records.append(
            Stepped(
                at=at,
                version=version,
                reason="buffer",
                count=count,
                samples=float(count),
                digest="",
                gap_norm=gap,
                nbytes=20,
                payload=b"y" * 20,
            )
        )

    def measure(
        self, name: str, at: float, version: int, samples: int = 10, **values: float
    ) -> None:
        """A public model is evaluated."""
        self.records.append(
            Evaluated(
                at=at, cid=f"id-{name}", version=version, values=values, samples=samples
            )
        )

    def show(self, name: str, at: float, version: int, text: str) -> None:
        """An evaluator sends a text of the model."""
        self.records.append(
            Evaluated(
                at=at,
                cid=f"id-{name}",
                version=version,
                values={},
                samples=1,
                text=text,
            )
        )

    def lose(self, name: str, at: float) -> None:
        """A client is not heard of any more."""
        self.records.append(Lost(at=at, cid=f"id-{name}"))

    def evict(self, name: str, at: float) -> None:
        """The operator shuts a client out."""
        self.records.append(Evicted(at=at, name=name))

    def readmit(self, name: str, at: float) -> None:
        """The operator lets it come back."""
        self.records.append(Readmitted(at=at, name=name))

    def leave(self, name: str, at: float) -> None:
        """A client leaves for good."""
        self.records.append(Departed(at=at, cid=f"id-{name}"))

    def start(self, at: float) -> None:
        """A server begins to serve."""
        self.records.append(ServerStarted(at=at))

    def stop(self, at: float) -> None:
        """It is told to stop."""
        self.records.append(ServerStopped(at=at))

    def fork_history(self, at: float, version: int, reason: str) -> None:
        """An older state was restored."""
        self.records.append(
            HistoryForked(at=at, epoch="f" * 16, version=version, reason=reason)
        )

    def close(self, at: float, version: int, reason: str = "2 versions") -> None:
        """The run ends."""
        self.records.append(Closed(at=at, version=version, reason=reason))

    def write(self, folder: Path) -> Path:
        """The run's folder."""
        initial_D = np.zeros(DIM, np.float32)
        spec = ParamSpec.of({"layer.weight": initial_D})
        configured = Configured(
            at=0.0,
            run_id=self.run_id,
            seed=0,
            config=parse_config(self.config).model_dump(mode="json"),
            spec=spec.to_json(),
            epoch="0" * 16,
            origin=digest(initial_D),
            versions={"latecomer": "0.1.0"},
        )
        journal = Journal.create(folder, configured, initial_D, durable=False)
        try:
            journal.append(self.records)
        finally:
            journal.close()
        return folder


def short_story() -> Story:
    """Two clients and an evaluator make two versions; one update comes too late."""
    story = Story(config=dict(SOON_LOST))
    for name in ("ann", "bob"):
        story.enrol(name)
    story.enrol("judge", role="evaluator")
    story.measure("judge", 0.0, 0, samples=50, accuracy=0.1, loss=2.3)
    story.lease("ann", 1.0)
    story.lease("bob", 1.0, patch="none", nbytes=0)
    story.decide("ann", 3.0, nbytes=40, memory_norm=0.5)
    story.step(1, 3.0, gap=0.25)
    story.measure("judge", 3.5, 1, samples=50, accuracy=0.6, loss=1.1)
    story.lease("ann", 4.0, version=1, patch="replay", nbytes=20)
    story.lose("bob", 5.0)
    story.decide(
        "bob", 7.0, staleness=1, verdict=Verdict.REJECTED_STALE, weight=0.0, nbytes=44
    )
    story.lease("bob", 7.5, version=1, patch="overwrite", nbytes=30)
    story.decide(
        "bob", 9.0, base=1, staleness=0, weight=0.5, oldest=0, nbytes=48, loss=None
    )
    story.step(2, 9.0, gap=0.125)
    story.measure("judge", 9.5, 2, samples=50, accuracy=0.5, loss=0.9)
    story.close(10.0, 2)
    return story
