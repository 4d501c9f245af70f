"""One run: server, proxy and crowds as processes, and the final accounts."""

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bytes.count import Count
from benchmarks.bytes.settings import Setting
from benchmarks.bytes.tasks import Task
from benchmarks.speed.processes import Helper, cpu_seconds
from fedcore.coordinator.events import Decided, Leased, Stepped
from fedcore.protocol import Verdict
from fedcore.typing import Seconds, Vector
from fedrun.app import load_app
from fedrun.config import parse_config
from fedrun.journal import Configured, Journal, new_coordinator
from fedrun.traffic import Traffic
from fedrun.traffic_file import read_traffic
from fedview.results import Results
from tools.local import Child, LocalFederation

LAST = 10  # versions whose accuracies are averaged: one round says little
CURVE = 20  # and so many are measured on the way
WARM = 0.2  # of the versions; from then on the connections count as warm
ALMOST = 0.99  # and until then: the end has its own traffic
PATIENCE: Seconds = 3600.0
THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
# Clients that do not train show at longer intervals that they are there.
TIMEOUTS = {"hold": 60.0, "heartbeat": 20.0, "lost": 70.0, "linger": 60.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What all runs of a session have in common."""

    task: Task
    rounds: int
    folder: Path  # for all runs
    data: str = ""
    processes: int = 2  # that the clients share


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a run."""

    accuracy: float  # mean of the last versions
    curve: dict[int, float]  # by version
    whole: Count  # from the first connection to the last goodbye
    steady: Count  # on warm connections
    updates: int  # accepted, by the journal
    payload_up: int  # by the journal, bytes of all updates
    payload_down: int  # likewise of all models and patches that went with a task
    book: Traffic  # what the server has counted
    seconds: Seconds
    cpu: dict[str, Seconds]


def federate(plan: Plan, setting: Setting, seed: int, cut: float = 0.0) -> Outcome:
    """Runs a federation to its end; ``cut`` is the share of uploads that break."""
    folder = Path(tempfile.mkdtemp(prefix=f"seed-{seed}-", dir=plan.folder))
    real = LocalFederation(folder, config(plan, setting, seed), app=plan.task.app)
    real.environment |= THREADS
    with ExitStack() as stack:
        stack.enter_context(real)
        server = real.server("--no-evaluator")
        words = ("--cut", str(cut), "--seed", str(seed))
        proxy = stack.enter_context(
            Helper("-m", "benchmarks.bytes.proxy", real.address, *words)
        )
        crowds = [
            start_crowd(real, plan, seed, first, str(proxy.greeting))
            for first in range(plan.processes)
        ]
        began = time.monotonic()
        warm = wait(real, proxy, WARM * plan.rounds)
        almost = wait(real, proxy, ALMOST * plan.rounds)
        cpu = {
            child.name: cpu_seconds(child.process.pid)
            for child in (server, *crowds)
            if child.process is not None
        } | {"proxy": cpu_seconds(proxy.process.pid)}
        seconds = time.monotonic() - began
        for child in (*crowds, server):
            if child.wait(PATIENCE):
                raise RuntimeError(f"{child.name} failed:\n{child.tail()}")
        real.wait_until(lambda: not proxy.ask("?")["open"], "the connections end")
        whole = Count.read(proxy.ask("the end"))
    if not whole.balances:
        raise RuntimeError("the proxy passed on bytes that it did not account for")
    curve = dict(measure(real.run, plan, seed))
    last = [curve[version] for version in sorted(curve)[-LAST:]]
    results = Results(real.run)
    accepted = [r for r in results.of(Decided) if r.verdict is Verdict.ACCEPTED]
    outcome = Outcome(
        accuracy=float(np.mean(last)),
        curve=curve,
        whole=whole,
        steady=almost.since(warm),
        updates=len(accepted),
        payload_up=sum(record.nbytes for record in results.of(Decided)),
        payload_down=sum(record.nbytes for record in results.of(Leased)),
        book=read_traffic(real.run) or Traffic(),
        seconds=seconds,
        cpu=cpu,
    )
    shutil.rmtree(folder)
    return outcome


def config(plan: Plan, setting: Setting, seed: int) -> dict[str, Any]:
    """The federation's YAML."""
    compressors = {"uplink": setting.uplink, "downlink": setting.downlink}
    return {
        "app": plan.task.app,
        "model": "model.safetensors",
        "seed": seed,
        "server": {"listen": "127.0.0.1:0", "journal": "run"},
        "algorithm": {**plan.task.algorithm(plan.rounds), **compressors},
        "stop": {"versions": plan.rounds},
        "timeouts": TIMEOUTS,
    }


def start_crowd(
    real: LocalFederation, plan: Plan, seed: int, first: int, address: str
) -> Child:
    """Some of the clients."""
    command = [sys.executable, "-m", "benchmarks.bytes.crowd", address]
    command += ["--app", plan.task.app, "--model", "model.safetensors"]
    command += ["--folder", "states", "--data", plan.data, "--seed", str(seed)]
    command += ["--count", str(plan.task.clients)]
    command += ["--first", str(first), "--step", str(plan.processes)]
    child = Child(f"crowd-{first}", command, real.folder, real.environment)
    real.children[child.name] = child
    child.start()
    return child


def wait(real: LocalFederation, proxy: Helper, version: float) -> Count:
    """What the proxy has counted when the server publishes a version."""

    def is_there() -> bool:
        for child in real.children.values():
            if child.process is not None and child.process.poll():
                raise RuntimeError(f"{child.name} failed:\n{child.tail()}")
        newest = (e for e in reversed(real.events()) if e["event"] == "stepped")
        return int(next(newest, {"version": -1})["version"]) >= version

    real.wait_until(is_there, f"version {version:.0f}", PATIENCE)
    return Count.read(proxy.ask("now"))


def measure(run: Path, plan: Plan, seed: int) -> Iterator[tuple[int, float]]:
    """The accuracy of versions, which the journal yields again bit for bit."""
    wanted = {*range(plan.rounds - LAST + 1, plan.rounds + 1)}
    wanted |= {*range(0, plan.rounds, max(1, plan.rounds // CURVE))}
    test = plan.task.share(plan.data, plan.task.clients, seed).test
    model = load_app(plan.task.app).flat()
    for version, public_D in versions(run):
        if version in wanted:
            yield version, float(model.evaluate(public_D, tuple(test))[0]["accuracy"])


def versions(run: Path) -> Iterator[tuple[int, Vector]]:
    """All public models of a run, in order."""
    journal = Journal.open(run, read_only=True)
    try:
        spec, initial_D = journal.initial()
        told = journal.configurations()[0][1]
        state = new_coordinator(
            parse_config(told.config), spec, initial_D, told.epoch
        ).state
        yield 0, initial_D
        for _, record in journal.entries():
            if isinstance(record, Configured):
                continue
            state.restore(record)
            if isinstance(record, Stepped):
                if state.published.digest != record.digest:
                    raise RuntimeError(f"version {record.version} is not what it was")
                yield record.version, state.published.public_D
    finally:
        journal.close()
