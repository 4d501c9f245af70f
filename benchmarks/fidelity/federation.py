"""A real federation on this machine that imitates the population of the config.

A server and its clients are processes, as a user starts them. The section ``simulate``
sets the speed and the availability of clients: a client makes each task last as long as
the device of its number needs, by sleeping after it has computed, so that clients that
share a few cores do not slow each other down; it sends no update of a task in which the
device drops out; and it is killed when the device goes, and started again when it
comes. Links are those of this machine.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from heapq import heapify, heappop, heappush
from pathlib import Path

import numpy as np
import yaml

from benchmarks.fidelity.processes import Process
from fedcore.errors import ConfigError, UnavailableError
from fedcore.typing import Counts, Seconds
from fedcore.user_code import user_code
from fedcore.workload import Workload
from fedrun.config import FederationConfig
from fedsim.population import Population

_LOOK: Seconds = 0.02
_LISTENS: Seconds = 120.0  # it makes the model first
_TASKS = 500  # whose durations are written down; then they begin anew
CONFIG = "federation.yaml"
RUN = "run"


def federate(
    config: FederationConfig, place: Path, workload: Workload, folder: Path
) -> Iterator[int]:
    """Runs the federation to its end, and yields the newest version now and then.

    Args:
        config: whose ``simulate`` says what the clients are like.
        place: the folder from which the app is loaded.
        workload: the app.
        folder: gets the run, the clients' states and the logs.

    Raises:
        ConfigError: the population does something that processes cannot play.
        UnavailableError: the server or a client failed.
    """
    must_be_playable(config)
    population = Population(config.simulate, config.seed)
    folder.mkdir(parents=True, exist_ok=True)
    paces = _write_paces(config, population, workload, folder)
    with _serving(config, place, folder) as server, ExitStack() as stack:
        address = _address(server)
        clients = []
        for who, name in enumerate(population.names):
            words = ["fedclient", "join", address, "--app", str(config.app)]
            words += ["--name", name, "--state", str(folder / "states" / name)]
            index, count = population.place(who)
            words += ["--index", str(index), "--count", str(count)]
            for key, value in config.simulate.args.items():
                words += ["--data", f"{key}={value}"]
            words += ["--pace", str(paces[who])]
            client = Process(words, place, folder / f"{name}.log")
            stack.callback(client.kill)
            clients.append(client)
        yield from _play(population, server, clients)


def must_be_playable(config: FederationConfig) -> None:
    """Raises ConfigError where a population does what is not played."""
    simulate = config.simulate
    if config.app is None:
        raise ConfigError("app: is missing; clients and simulation need the workload")
    stop = config.stop
    if not (stop.versions or stop.updates or stop.seconds or stop.target):
        raise ConfigError("stop: the federation needs an end, such as stop.versions")
    strange = {
        "upload_loss": simulate.upload_loss,
        "ack_loss": simulate.ack_loss,
        "arrivals": simulate.arrivals,
    }
    for name, given in strange.items():
        if given:
            raise ConfigError(
                f"simulate.{name}: real processes do not play it; they play speed, "
                "jitter, dropout, preemption and availability (killed when a device "
                "goes)"
            )


def _write_paces(
    config: FederationConfig, population: Population, workload: Workload, folder: Path
) -> list[Path]:
    """How each task of each client goes, a file for each client."""
    found = []
    labels: dict[int, Counts | None] = {}
    population.show_labels(labels.get)
    for who, name in enumerate(population.names):
        client = population.client(who)
        with user_code(f"train_data of {name}"):
            samples = workload.samples(workload.train_data(client), name)
        labels[who] = samples.label_counts(np.arange(len(samples)))
        steps = config.algorithm.client.step_count(len(samples))
        lines = [_stint(population, who, task, steps) for task in range(1, _TASKS + 1)]
        path = folder / f"{name}.pace"
        path.write_text("\n".join(lines) + "\n")
        found.append(path)
    return found


def _stint(population: Population, who: int, task: int, steps: int) -> str:
    """How long a task of a device takes, and whether the device drops out of it."""
    seconds = population.compute(who, task, steps)
    lost = population.dropout(who, task)
    if lost is None:
        return f"{seconds:.6f}"
    return f"{lost * seconds + population.away(who, task):.6f} lost"


@contextmanager
def _serving(config: FederationConfig, place: Path, folder: Path) -> Iterator[Process]:
    """A server, which beside it starts an evaluator; it is stopped at the end."""
    settings = config.model_dump(mode="json", exclude_unset=True)
    settings["server"] = {"listen": "127.0.0.1:0", "journal": str(folder / RUN)}
    settings["model"] = str(folder / "model.safetensors")
    settings["app"] = _absolute(str(config.app), place)
    path = folder / CONFIG
    path.write_text(yaml.safe_dump(settings, sort_keys=False))
    words = ["fedserver", "run", str(path), "--log", "json"]
    server = Process(words, place, folder / "server.log")
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _absolute(app: str, place: Path) -> str:
    """An app that is a file, found from anywhere; a module's name stays."""
    module, _, attribute = app.rpartition(":")
    return (
        f"{(place / module).resolve()}:{attribute}" if module.endswith(".py") else app
    )


def _address(server: Process) -> str:
    """Where the server listens."""
    deadline = time.monotonic() + _LISTENS
    while time.monotonic() < deadline:
        for line in server.lines():
            if line.get("event") == "listening":
                return str(line["address"])
        server.check()
        time.sleep(_LOOK)
    raise UnavailableError(f"the server does not listen after {_LISTENS:g} s")


def _play(
    population: Population, server: Process, clients: list[Process]
) -> Iterator[int]:
    """Clients come and go until the server has ended."""
    coming: list[tuple[Seconds, int, bool]] = []
    for who, client in enumerate(clients):
        if population.is_there(who, 0.0):
            client.start()
        if (change := population.next_change(who, 0.0)) is not None:
            coming.append((change[0], who, change[1]))
    heapify(coming)
    began = time.monotonic()
    while server.is_running:
        now = time.monotonic() - began
        while coming and coming[0][0] <= now:
            at, who, comes = heappop(coming)
            client = clients[who]
            if comes:
                client.start()
            else:
                client.check()
                client.kill()
            if (change := population.next_change(who, at)) is not None:
                heappush(coming, (change[0], who, change[1]))
        for client in clients:
            if client.status and client.status > 0:
                client.check()
        steps = [line for line in server.lines() if line["event"] == "stepped"]
        yield int(steps[-1]["version"]) if steps else 0
        time.sleep(_LOOK)
    server.check()
