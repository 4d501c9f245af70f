"""The drill on a virtual clock: the same schedule, at its real length."""

import math
from pathlib import Path

import latecomer
from benchmarks.hospitals.app import workload
from benchmarks.hospitals.outcome import outcome
from benchmarks.hospitals.schedule import (
    HORIZON,
    SITES,
    Event,
    Minutes,
    absences,
    schedule,
    task_minutes,
)
from benchmarks.hospitals.ways import STEPS, algorithm
from fedcore.typing import JSON, Seconds
from fedsim.traces import ClientTrace, Segment, write_trace

MINUTE: Seconds = 60.0
MBIT, LATENCY = 20.0, 0.05  # of each site's link
LOST: Seconds = 180.0  # a site that is silent for so long counts as lost


def play(way: str, seed: int, folder: Path, horizon: Minutes = HORIZON) -> JSON:
    """Simulates the drill under one way of making versions."""
    events = schedule(seed, horizon)
    folder.mkdir(parents=True, exist_ok=True)
    trace = folder / "sites.csv"
    write_trace(trace, sites(events))
    results = latecomer.run(
        {
            "seed": seed,
            "algorithm": algorithm(way),
            "evaluate": {"every_versions": 1000},
            "stop": {"seconds": horizon * MINUTE},
            "timeouts": {"heartbeat": 10.0, "lost": LOST, "lease": 7200.0},
            "simulate": {
                "trace": str(trace),
                "availability": {"kind": "trace"},
                "args": {"seed": str(seed)},
                "engine": {"kind": "exact"},
            },
        },
        workload,
        folder=folder / "run",
    )
    return {"seed": seed, "horizon": horizon, **outcome(results, events, MINUTE)}


def sites(events: list[Event]) -> list[ClientTrace]:
    """When each site reaches the server, how fast it is, and which data it has."""
    found = []
    for site, task in enumerate(task_minutes()):
        segments, at = list[Segment](), 0.0
        for start, end in absences(events, site):
            segments.append(Segment(at, start * MINUTE, "there"))
            at = end * MINUTE
            segments.append(Segment(start * MINUTE, at, "away"))
        segments.append(Segment(at, math.inf, "there"))
        found.append(
            ClientTrace(
                f"hospital-{site}",
                segments,
                step_seconds=task * MINUTE / STEPS,
                up_mbit=MBIT,
                down_mbit=MBIT,
                latency=LATENCY,
                index=site,
                count=SITES,
            )
        )
    return found
