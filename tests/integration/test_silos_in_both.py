"""A silo that the simulator accepts is one that a client can have, and the reverse."""

from contextlib import ExitStack
from itertools import product
from pathlib import Path

import pytest

import latecomer
from fedclient.silo.workload import read_workers, with_workers
from fedcore.errors import ConfigError
from fedcore.training import Trainer
from fedcore.workload import Workload
from fedrun.config import parse_config
from tests.fedclient.silo import apps, torch_apps
from tests.integration import batch_norm_app

APPS: dict[str, Workload] = {
    "gradients": apps.workload,
    "a loop of its own": apps.own_loop,
    "dropout": torch_apps.workload,
    "batch statistics": batch_norm_app.average,
    "frozen statistics": batch_norm_app.with_buffers(buffers="frozen"),
}
CLIENTS = ("local_sgd", "fed_prox", "scaffold", "prioritised_sgd", "overlap_local_sgd")
SIZES = {(1, 0), (4, 1), (3, 3), (0, 0), (4, -1), (16, 3), (17, 0), (1_001, 0)}
ALIKE = {*product(APPS, ["local_sgd"], SIZES), *product(APPS, CLIENTS, [(2, 0)])}
Size = tuple[int, int]


def why_no_client(app: str, client: str, size: Size) -> str:
    """Why a client that joins with these workers ends; empty if it does not."""
    try:
        code = read_workers(*size)
        assert code is not None
        with ExitStack() as stack:
            made = with_workers(APPS[app], "never.py:read", None, code, stack)
            model = made.flat()
            config = parse_config(settings(client))
            Trainer(made, config.algorithm.build(model.spec), model=model)
    except ConfigError as error:
        return str(error)
    return ""


def why_no_simulation(app: str, client: str, size: Size, folder: Path) -> str:
    """Why a simulation of such clients ends before its first task; likewise."""
    workers, stragglers = size
    silo = {"workers": workers, "stragglers": stragglers}
    config = settings(client) | {"simulate": {"clients": 2, "silo": silo}}
    try:
        latecomer.run(config, APPS[app], folder=folder / "run")
    except ConfigError as error:
        return str(error)
    return ""


def settings(client: str) -> dict[str, object]:
    algorithm = {"kind": "fed_buff", "buffer": 1, "client": {"kind": client}}
    return {"algorithm": algorithm, "stop": {"versions": 1}}


@pytest.mark.parametrize(("app", "client", "size"), sorted(ALIKE))
def test_both_refuse_the_same_silos(
    app: str, client: str, size: Size, tmp_path: Path
) -> None:
    joins = why_no_client(app, client, size)
    runs = why_no_simulation(app, client, size, tmp_path)
    assert bool(joins) == bool(runs), joins or runs


def test_some_are_refused_and_some_are_not(tmp_path: Path) -> None:
    refused = {each for each in ALIKE if why_no_client(*each)}
    assert ("gradients", "local_sgd", (4, 1)) not in refused
    assert ("frozen statistics", "local_sgd", (16, 3)) not in refused
    assert ("frozen statistics", "local_sgd", (17, 0)) in refused
    assert ("gradients", "prioritised_sgd", (2, 0)) in refused
    assert ("batch statistics", "local_sgd", (1, 0)) in refused
