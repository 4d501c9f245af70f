"""One model, whoever drives it: gRPC between processes, and the virtual clock."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcore.coordinator.events import Decided, Declined, Leased, Stepped
from fedcore.params import digest
from fedcore.protocol import Verdict
from fedcore.training import Trainer, initial_model, task_key
from fedcore.workload import Client
from fedrun.app import load_app
from fedrun.config import load_config
from fedrun.journal import Journal
from fedview.results import Results
from tests.integration.conftest import APP
from tools.local import LocalFederation

IDENTITY = {"kind": "identity"}
COMPRESSED = {
    "uplink": {"kind": "error_feedback", "inner": {"kind": "top_k", "ratio": 0.05}},
    "downlink": {"kind": "top_k", "ratio": 0.1},
}
UNCOMPRESSED = {"uplink": IDENTITY, "downlink": IDENTITY}
CLIENTS = 4
OWN = APP.parents[2] / "examples" / "own_methods" / "my_methods.py"

pytestmark = pytest.mark.processes


def settings(kind: str, compression: dict[str, Any]) -> dict[str, Any]:
    client = {"kind": "local_sgd", "lr": 0.1, "steps": 5, "batch": 16}
    pace = {"buffer": CLIENTS, "min_clients": CLIENTS}  # nobody comes after the end
    made = {"kind": kind, "client": client, **pace, **compression}
    if kind == "flexible_participation":
        made["aggregator"] = {"kind": kind, "boost": 2.0}
    return made


@pytest.mark.parametrize(
    "kind",
    [
        "fed_avg",
        "fed_buff",
        "fed_async",
        pytest.param("latecomer", marks=pytest.mark.quick),
        "ca2fl",
        "mifa",
        "fed_nova",
        "flexible_participation",
    ],
)
@pytest.mark.parametrize(
    "compression", [UNCOMPRESSED, COMPRESSED], ids=["raw", "coded"]
)
def test_the_simulator_repeats_a_real_federation_bit_for_bit(
    kind: str,
    compression: dict[str, Any],
    federation: Callable[..., LocalFederation],
) -> None:
    real = federation(algorithm=settings(kind, compression), stop={"versions": 12})
    served(real)
    done = real.command(
        *("fedsim", "run", str(real.path), "--set", f"simulate.arrivals={real.run}"),
        *("-o", str(real.folder / "again"), "--no-report"),
    )
    assert done.returncode == 0, done.stderr
    assert published(real.folder / "again") == published(real.run)
    assert len(published(real.run)) >= 12


@pytest.mark.parametrize("uplink", [IDENTITY, {"kind": "top_k", "ratio": 0.3}])
@pytest.mark.parametrize(
    ("kind", "momentum"), [("overlap_local_sgd", 0.9), ("fed_buff", 0.0)]
)
def test_clients_that_train_on_while_they_send_are_the_same_in_both(
    kind: str,
    momentum: float,
    uplink: dict[str, Any],
    federation: Callable[..., LocalFederation],
) -> None:
    algorithm = settings(kind, {"uplink": uplink})
    algorithm["client"] |= {"kind": "overlap_local_sgd", "momentum": momentum}
    real = federation(algorithm=algorithm, stop={"versions": 12})
    served(real)
    done = real.command(
        *("fedsim", "run", str(real.path), "--set", f"simulate.arrivals={real.run}"),
        *("-o", str(real.folder / "again"), "--no-report"),
    )
    assert done.returncode == 0, done.stderr
    assert published(real.folder / "again") == published(real.run)
    assert len(published(real.run)) >= 12


@pytest.mark.parametrize(
    "compression", [UNCOMPRESSED, COMPRESSED], ids=["raw", "coded"]
)
@pytest.mark.parametrize("kind", ["scaffold", "fed_dyn"])
def test_a_method_with_state_on_both_sides_is_the_same_in_both(
    kind: str,
    compression: dict[str, Any],
    federation: Callable[..., LocalFederation],
) -> None:
    algorithm = settings(kind, compression)
    algorithm["client"] = {"kind": kind, "lr": 0.1, "steps": 5, "batch": 16}
    real = federation(algorithm=algorithm, stop={"versions": 8})
    served(real)
    done = real.command(
        *("fedsim", "run", str(real.path), "--set", f"simulate.arrivals={real.run}"),
        *("-o", str(real.folder / "again"), "--no-report"),
    )
    assert done.returncode == 0, done.stderr
    assert published(real.folder / "again") == published(real.run)
    for words in (("verify",), ("replay", "--set", "algorithm.buffer=2")):
        asked = real.command(
            "fedserver", "journal", words[0], str(real.run), *words[1:]
        )
        assert asked.returncode == 0, asked.stderr
    last = Results(real.run)
    assert set(last.model("last")) == set(last.model(version=4))


def test_settings_of_some_clients_are_the_same_in_both(
    federation: Callable[..., LocalFederation],
) -> None:
    algorithm = settings("fed_nova", COMPRESSED)
    algorithm["client"] |= {
        "overrides": [
            {"clients": "client-0", "steps": 2, "lr": 0.05},
            {"clients": ["client-0", "client-[12]"], "batch": 4, "momentum": 0.9},
        ]
    }
    real = federation(algorithm=algorithm, stop={"versions": 8})
    served(real)
    done = real.command(
        *("fedsim", "run", str(real.path), "--set", f"simulate.arrivals={real.run}"),
        *("-o", str(real.folder / "again"), "--no-report"),
    )
    assert done.returncode == 0, done.stderr
    assert published(real.folder / "again") == published(real.run)
    results = Results(real.run)
    steps = {results.names[r.cid]: r.steps for r in results.of(Decided)}
    assert steps == {"client-0": 2, "client-1": 5, "client-2": 5, "client-3": 5}
    for words in (("verify",), ("replay",)):
        asked = real.command("fedserver", "journal", *words, str(real.run))
        assert asked.returncode == 0, asked.stderr


def test_tasks_that_are_refused_before_are_the_same_in_both(
    federation: Callable[..., LocalFederation],
) -> None:
    algorithm = settings("fleet", COMPRESSED) | {"buffer": 1}
    algorithm["update_filter"] = {
        "kind": "fleet_controller",
        "size_percentile": 40,
        "similarity_percentile": 20,
        "ask_again": 0.2,
    }
    real = federation(algorithm=algorithm, stop={"versions": 40})
    served(real)
    first = Results(real.run)
    verdicts = {r.verdict for r in first.of(Decided)}
    # None was refused after it was computed. Some may come after the last version.
    assert verdicts <= {Verdict.ACCEPTED, Verdict.REJECTED_CLOSED}
    assert any(r.counts is not None for r in first.of(Declined))
    done = real.command(
        *("fedsim", "run", str(real.path), "--set", f"simulate.arrivals={real.run}"),
        *("-o", str(real.folder / "again"), "--no-report"),
    )
    assert done.returncode == 0, done.stderr
    assert published(real.folder / "again") == published(real.run)
    again = Results(real.folder / "again")
    assert len(again.of(Declined)) == len(first.of(Declined)) > 0
    for run in (real.run, real.folder / "again"):
        asked = real.command("fedserver", "journal", "verify", str(run))
        assert asked.returncode == 0, asked.stderr
    other = ("--set", "algorithm.update_filter.size_percentile=90")
    asked = real.command("fedserver", "journal", "replay", str(real.run), *other)
    assert asked.returncode == 0, asked.stderr


def test_clients_that_keep_priorities_are_the_same_in_both(
    federation: Callable[..., LocalFederation],
) -> None:
    algorithm = settings("fed_buff", COMPRESSED)
    algorithm["client"] |= {"kind": "prioritised_sgd"}
    real = federation(algorithm=algorithm, stop={"versions": 8})
    served(real)
    done = real.command(
        *("fedsim", "run", str(real.path), "--set", f"simulate.arrivals={real.run}"),
        *("-o", str(real.folder / "again"), "--no-report"),
    )
    assert done.returncode == 0, done.stderr
    assert published(real.folder / "again") == published(real.run)


def test_a_client_whose_workload_has_no_estimates_says_so_and_ends(
    federation: Callable[..., LocalFederation],
) -> None:
    algorithm = settings("fed_buff", UNCOMPRESSED)
    algorithm["client"] |= {"kind": "prioritised_sgd", "priority": "estimate"}
    real = federation(algorithm=algorithm, stop={"versions": 1})
    real.server("--no-evaluator")
    client = real.client(0, CLIENTS)
    assert client.wait() == 78
    assert "use priority: gradient_norm" in client.tail()


@pytest.mark.parametrize("downlink", [IDENTITY, {"kind": "top_k", "ratio": 0.3}])
def test_groups_that_change_every_round_are_the_same_in_both(
    downlink: dict[str, Any], federation: Callable[..., LocalFederation]
) -> None:
    algorithm = settings("ds_sync", {"downlink": downlink})
    algorithm["client"] = {**algorithm["client"], "kind": "ds_sync", "groups": 2}
    real = federation(algorithm=algorithm, stop={"versions": 8})
    served(real)
    done = real.command(
        *("fedsim", "run", str(real.path), "--set", f"simulate.arrivals={real.run}"),
        *("-o", str(real.folder / "again"), "--no-report"),
    )
    assert done.returncode == 0, done.stderr
    assert published(real.folder / "again") == published(real.run)
    model = 4 * load_app(f"{APP}:workload").flat().spec.dim
    moved = [r for r in records(real.run) if isinstance(r, Decided | Leased)]
    assert all(r.nbytes < 1.05 * model for r in moved)
    for words in (("verify",), ("replay",)):
        asked = real.command("fedserver", "journal", *words, str(real.run))
        assert asked.returncode == 0, asked.stderr


def test_gaias_sites_keep_in_step_and_are_the_same_in_both(
    federation: Callable[..., LocalFederation],
) -> None:
    uplink = {
        "kind": "error_feedback",
        "own_view": True,
        "inner": {"kind": "gaia", "threshold": 0.1, "decay": "rate", "flush": 8},
    }
    client = {
        "kind": "local_sgd",
        "steps": 2,
        "schedule": {"kind": "linear", "after": 0, "until": 60},
    }
    algorithm = {"kind": "gaia", "ahead": 0, "min_clients": CLIENTS, "client": client}
    controls = [{"kind": "gaia", "limit": 10**6, "threshold": 0.1, "most": 0.2}]
    algorithm |= {"uplink": uplink, "controllers": controls}
    real = federation(algorithm=algorithm, stop={"versions": 32})
    served(real)
    done = real.command(
        *("fedsim", "run", str(real.path), "--set", f"simulate.arrivals={real.run}"),
        *("-o", str(real.folder / "again"), "--no-report"),
    )
    assert done.returncode == 0, done.stderr
    assert published(real.folder / "again") == published(real.run)
    order = [name for each in rounds(real) for name, _ in each]
    for start in range(0, 32, CLIENTS):  # each once, before anyone a second time
        assert len({*order[start : start + CLIENTS]}) == CLIENTS


def test_methods_of_a_users_own_are_the_same_in_both(
    federation: Callable[..., LocalFederation],
) -> None:
    algorithm = settings("fed_buff", COMPRESSED)
    algorithm |= {"staleness": {"kind": "logarithmic"}, "server": {"kind": "signs"}}
    real = federation(algorithm=algorithm, stop={"versions": 8}, methods=[str(OWN)])
    server = real.server()
    lacks = real.client(0, CLIENTS, name="lacks")
    assert lacks.wait() == 77
    assert "lacks a method of it: staleness: unknown staleness policy" in lacks.tail()
    assert "name its file with --methods" in lacks.tail()
    clients = [real.client(i, CLIENTS, "--methods", str(OWN)) for i in range(CLIENTS)]
    assert server.wait() == 0, server.tail()
    assert [client.wait() for client in clients] == [0] * CLIENTS
    done = real.command(
        *("fedsim", "run", str(real.path), "--set", f"simulate.arrivals={real.run}"),
        *("-o", str(real.folder / "again"), "--no-report"),
    )
    assert done.returncode == 0, done.stderr
    assert published(real.folder / "again") == published(real.run)
    assert Results(real.run).central["version"]  # the server's own evaluator has them
    words = ("fedserver", "journal", "verify", str(real.run))
    assert "name it: --methods FILE" in real.command(*words).stderr
    assert real.command(*words, "--methods", str(OWN)).returncode == 0


def test_clients_that_compare_models_are_the_same_in_both(
    federation: Callable[..., LocalFederation],
) -> None:
    scout = {"kind": "skew_scout", "every": 2, "tolerance": 0.01, "memory": 2}
    algorithm = settings("fed_buff", COMPRESSED | {"controllers": [scout]})
    real = federation(algorithm=algorithm, stop={"versions": 16})
    served(real)
    done = real.command(
        *("fedsim", "run", str(real.path), "--set", f"simulate.arrivals={real.run}"),
        *("-o", str(real.folder / "again"), "--no-report"),
    )
    assert done.returncode == 0, done.stderr
    assert published(real.folder / "again") == published(real.run)
    sizes = {r.nbytes for r in records(real.run) if isinstance(r, Decided)}
    assert max(sizes) > 1.5 * min(sizes)  # they have looked for the right density


def test_identity_codecs_and_a_full_cohort_are_fed_avg(
    federation: Callable[..., LocalFederation],
) -> None:
    real = federation(algorithm=settings("fed_avg", UNCOMPRESSED), stop={"versions": 3})
    served(real)
    assert published(real.run) == fed_avg(real)


def fed_avg(real: LocalFederation) -> list[str]:
    """Federated averaging in delta form, in the order in which updates arrived."""
    config = load_config(real.path)
    workload = load_app(f"{APP}:workload")
    model = workload.flat()
    trainer = Trainer(workload, config.algorithm.build(model.spec))
    x = initial_model(model, config.seed)
    digests = []
    for round_of_updates in rounds(real):
        total, samples = np.zeros_like(x), 0
        for name, seq in round_of_updates:
            client = Client(name, int(name[-1]), CLIENTS)
            data = workload.train_data(client)
            update = trainer.train(x, data, task_key(config.seed, name, seq))
            total += np.float32(update.samples) * update.delta_D
            samples += update.samples
        x = x - total / np.float32(samples)
        digests.append(digest(x))
    return digests


def rounds(real: LocalFederation) -> list[list[tuple[str, int]]]:
    """Who delivered what, for each version."""
    names = Results(real.run).names
    found: list[list[tuple[str, int]]] = [[]]
    for entry in records(real.run):
        if isinstance(entry, Decided) and entry.verdict.value == "accepted":
            found[-1].append((names[entry.cid], entry.seq))
        elif isinstance(entry, Stepped):
            found.append([])
    return found[:-1]


def served(real: LocalFederation) -> None:
    """Serves the federation to its end."""
    server = real.server("--no-evaluator")
    clients = [real.client(i, CLIENTS) for i in range(CLIENTS)]
    assert server.wait() == 0, server.tail()
    assert [client.wait() for client in clients] == [0] * CLIENTS


def published(run: Path) -> list[str]:
    """The digest of every version."""
    return [record.digest for record in records(run) if isinstance(record, Stepped)]


def records(run: Path) -> list[Any]:
    journal = Journal.open(run, read_only=True)
    try:
        return [entry.record for entry in journal.store.entries(payloads=False)]
    finally:
        journal.close()
