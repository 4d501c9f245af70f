"""latecomer: ``latecomer.run`` with a config and a workload, as a user calls it."""

import json
import tempfile
from pathlib import Path
from typing import Any

import torch

import latecomer
from benchmarks.simulation.peers.problem import Course, Floats
from benchmarks.simulation.workload import workload
from fedrun.config import FederationConfig, parse_config
from fedrun.run import Run
from fedview.callbacks import Notice


def federation(course: Course, folder: Path) -> FederationConfig:
    """FedAvg, unless the settings say otherwise."""
    problem = course.problem
    local = {
        "kind": "local_sgd",
        "epochs": problem.epochs,
        "lr": problem.lr,
        "batch": problem.batch,
    }
    raw: dict[str, Any] = {
        "server": {"journal": str(folder / "run")},
        "algorithm": {"kind": "fed_avg", "buffer": problem.cohort, "client": local},
        "stop": {"versions": course.rounds},
        "simulate": {"clients": problem.clients},
    }
    return parse_config(merged(raw, json.loads(course.settings)))


def merged(raw: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The same with changes, section by section."""
    result = dict(raw)
    for name, value in changes.items():
        old = raw.get(name)
        both = isinstance(old, dict) and isinstance(value, dict)
        result[name] = merged(raw[name], value) if both else value
    return result


def main() -> None:
    course = Course()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        config = federation(course, Path(folder))
        versions = 0

        def on_event(run: Run, event: Notice) -> None:
            nonlocal versions
            state = run.coordinator.state
            while versions < state.version:
                versions += 1
                course.finished(versions, lambda: layers(run, state.exact_D))

        latecomer.run(config, workload(course.path), on_event=on_event)
        course.ended()  # the journal is closed
    course.save(each=config.algorithm.buffer)


def layers(run: Run, model_D: Floats) -> list[Floats]:
    """The model's arrays."""
    tensors = run.coordinator.algorithm.spec.tensors
    return [model_D[t.slice].reshape(t.shape) for t in tensors]


if __name__ == "__main__":
    main()
