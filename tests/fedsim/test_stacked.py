"""Many clients at once come to what they come to one by one."""

import gc
import json
import tracemalloc
from collections import Counter
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import latecomer
from fedcore.controllers.bandwidth import DAY
from fedcore.coordinator import Rounds
from fedcore.coordinator.events import (
    ClientPulled,
    Decided,
    Declined,
    Evaluated,
    Failed,
    Leased,
    Stepped,
)
from fedcore.errors import JournalError, UserCodeError
from fedcore.labels import counts_list
from fedcore.user_code import Failure
from fedcore.workload import Client
from fedrun.data import digits
from fedrun.journal import Journal, recover, verify
from fedrun.traffic import Lane, Traffic
from fedrun.traffic_file import LaneRow, TrafficFile, read_traffic
from fedsim.engines.stacked.collector import few_collections
from fedsim.engines.stacked.stack import Stack
from fedsim.evaluator import NAME
from fedview.results import Results

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from fedcore.partitions import dirichlet  # noqa: E402
from fedtorch import TorchWorkload  # noqa: E402


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))


def train_data(client: Any) -> Any:
    x, y = digits("train")
    rows = dirichlet(y, clients=client.count, alpha=0.3, seed=0)[client.index]
    return x[rows], y[rows]


def valid_data(client: Any) -> Any:
    """Of unequal sizes."""
    x, y = digits("test")
    return x[client.index :: 5 + client.index], y[client.index :: 5 + client.index]


YEAR, MONTH = 365 * DAY, 30 * DAY
WORKLOAD = TorchWorkload(
    model=model,
    loss=nn.CrossEntropyLoss(),
    train_data=train_data,
    valid_data=valid_data,
    test_data=lambda: digits("test"),
)
SETTINGS: dict[str, dict[str, Any]] = {
    "fed_avg": {"algorithm": {"kind": "fed_avg", "buffer": 4}},
    "own_evaluations": {
        "algorithm": {"kind": "fed_buff", "buffer": 3},
        "evaluate": {"clients": True, "every_versions": 3},
        "simulate": {
            "speed": {"kind": "log_normal", "sigma": 1.0},
            "dropout": 0.2,
            "away_seconds": 2.0,
        },
    },
    "over_selection": {
        "algorithm": {"kind": "fed_avg", "buffer": 4, "over_selection": 1.5},
        "simulate": {"speed": {"kind": "log_normal", "sigma": 1.0}},
    },
    "momentum": {
        "algorithm": {
            "kind": "fed_avg",
            "buffer": 4,
            "client": {
                "kind": "local_sgd",
                "epochs": 2,
                "momentum": 0.9,
                "keep_momentum": True,
                "lr": 0.02,
            },
        }
    },
    "overlap": {
        "algorithm": {
            "kind": "fed_buff",
            "buffer": 3,
            "client": {"kind": "overlap_local_sgd", "lr": 0.05},
        },
        "simulate": {
            "speed": {"kind": "log_normal", "sigma": 1.0},
            "dropout": 0.2,
            "away_seconds": 2.0,
        },
    },
    "overlap_with_momentum": {
        "algorithm": {
            "kind": "fed_buff",
            "buffer": 3,
            "client": {"kind": "overlap_local_sgd", "lr": 0.02, "momentum": 0.9},
        },
        "simulate": {"speed": {"kind": "log_normal", "sigma": 1.0}, "dropout": 0.2},
    },
    "decay": {
        "algorithm": {
            "kind": "fed_buff",
            "buffer": 3,
            "client": {
                "kind": "fed_prox",
                "schedule": {"kind": "linear", "after": 2, "until": 9},
            },
        },
        "simulate": {"speed": {"kind": "log_normal", "sigma": 1.0}},
    },
    "adam": {
        "algorithm": {
            "kind": "fed_buff",
            "buffer": 3,
            "client": {
                "kind": "local_adam",
                "lr": 0.01,
                "eps": 0.001,
                "epochs": 2,
                "clip_norm": 1.0,
                "keep_moments": True,
                "schedule": {"kind": "warm_up", "versions": 4},
            },
        },
        "simulate": {"speed": {"kind": "log_normal", "sigma": 1.0}},
    },
    "overrides": {
        "algorithm": {
            "kind": "fed_nova",
            "buffer": 3,
            "client": {
                "kind": "local_sgd",
                "epochs": 2,
                "schedule": {"kind": "linear", "after": 2, "until": 9},
                "overrides": [
                    {"clients": "client-[0-3]", "steps": 3, "batch": 8, "lr": 0.05},
                    {"clients": ["client-1*", "client-7"], "momentum": 0.9},
                    {"clients": "client-[4-6]", "lr": 0.2, "schedule": None},
                ],
            },
        },
        "simulate": {"speed": {"kind": "log_normal", "sigma": 1.0}, "dropout": 0.2},
    },
    "frozen": {
        "algorithm": {
            "kind": "latecomer",
            "buffer": 3,
            "client": {
                "kind": "local_adam_w",
                "lr": 0.01,
                "eps": 0.001,
                "frozen": ["0.*"],
            },
        },
        "simulate": {"upload_loss": 0.2},
    },
    "fed_buff": {
        "algorithm": {"kind": "fed_buff", "buffer": 3, "concurrency": 6},
        "simulate": {"speed": {"kind": "pareto", "shape": 1.5}},
    },
    "fed_async": {
        "algorithm": {"kind": "fed_async"},
        "simulate": {"speed": {"kind": "log_normal", "sigma": 1.0}},
    },
    "oort": {
        "algorithm": {
            "kind": "oort",
            "buffer": 3,
            "selection": {"kind": "oort", "pacer_step": 1},
        },
        "simulate": {"speed": {"kind": "log_normal", "sigma": 1.0}, "dropout": 0.2},
    },
    "oort_without_rounds": {
        "algorithm": {
            "kind": "fed_buff",
            "buffer": 2,
            "concurrency": 3,
            "selection": {"kind": "oort", "percentile": 50},
        },
        "simulate": {"speed": {"kind": "log_normal", "sigma": 1.0}},
    },
    "latecomer": {
        "algorithm": {"kind": "latecomer", "buffer": 3},
        "simulate": {"speed": {"kind": "log_normal", "sigma": 1.0}},
    },
    "top_k": {
        "algorithm": {
            "kind": "latecomer",
            "buffer": 3,
            "staleness_limit": 4,
            "uplink": {"kind": "error_feedback", "inner": {"kind": "top_k"}},
            "downlink": {"kind": "top_k", "ratio": 0.1},
        },
        "simulate": {"speed": {"kind": "log_normal", "sigma": 1.5}},
    },
    "cyclic": {
        "algorithm": {
            "kind": "fed_buff",
            "buffer": 3,
            "uplink": {"kind": "error_feedback", "inner": {"kind": "cyclic"}},
        }
    },
    "fates": {
        "algorithm": {
            "kind": "fed_avg",
            "buffer": 4,
            "deadline": 5.0,
            "uplink": {"kind": "error_feedback", "inner": {"kind": "sign_l1"}},
        },
        "simulate": {
            "dropout": 0.2,
            "upload_loss": 0.2,
            "ack_loss": 0.2,
            "away_seconds": 3.0,
            "speed": {"kind": "log_normal", "sigma": 1.0},
        },
    },
    "diurnal": {
        "algorithm": {"kind": "fed_buff", "buffer": 3, "concurrency": 4},
        "simulate": {
            "step_seconds": 1.0,
            "availability": {"kind": "diurnal", "day_seconds": 200.0},
            "dropout": 0.2,
        },
    },
    "availability": {
        "algorithm": {"kind": "fed_buff", "buffer": 3},
        "simulate": {
            "step_seconds": 1.0,
            "availability": {
                "kind": "on_off",
                "there_seconds": 20.0,
                "gone_seconds": 20.0,
            },
        },
    },
    "leases_end": {
        "algorithm": {"kind": "fed_buff", "buffer": 3, "concurrency": 3},
        "simulate": {
            "step_seconds": 0.5,
            "speed": {"kind": "log_normal", "sigma": 1.5},
        },
        "timeouts": {"lease": 2.0},
    },
    "gone_in_the_download": {
        "algorithm": {"kind": "fed_buff", "buffer": 3},
        "simulate": {
            "jitter": {"kind": "log_normal", "sigma": 1.0},
            "link": {"down_mbit": 0.02},
            "availability": {
                "kind": "on_off",
                "there_seconds": 3.0,
                "gone_seconds": 3.0,
            },
        },
    },
    "too_late": {
        "algorithm": {"kind": "fed_buff", "buffer": 3, "staleness_limit": 0},
        "simulate": {
            "upload_loss": 0.3,
            "ack_loss": 0.3,
            "speed": {"kind": "log_normal", "sigma": 1.0},
        },
    },
    "a_cohort_with_room": {
        "seed": 1,
        "algorithm": {"kind": "fed_avg", "buffer": 5, "over_selection": 1.5},
        "simulate": {
            "step_seconds": 0.02,
            "link": {"down_mbit": 1.0},
            "availability": {"kind": "diurnal", "day_seconds": 5.0},
        },
    },
    "links_that_differ": {
        "algorithm": {"kind": "fed_avg", "buffer": 4, "over_selection": 1.5},
        "simulate": {
            "speed": {"kind": "log_normal", "sigma": 1.0},
            "link": {
                "latency": 1.0,
                "latency_spread": {"kind": "log_normal", "sigma": 1.5},
            },
        },
    },
    "deadlines_of_rounds_that_are_through": {
        "algorithm": {"kind": "fed_avg", "buffer": 4, "deadline": 4.0},
        "simulate": {"speed": {"kind": "log_normal", "sigma": 0.5}},
        "stop": {"versions": 40},
    },
    "leases_end_in_rounds": {
        "algorithm": {"kind": "fed_avg", "buffer": 4, "deadline": 6.0},
        "simulate": {
            "step_seconds": 0.5,
            "dropout": 0.1,
            "speed": {"kind": "log_normal", "sigma": 1.5},
        },
        "timeouts": {"lease": 2.0},
    },
    "a_deadline_as_long_as_a_lease": {
        "algorithm": {"kind": "fed_avg", "buffer": 3, "deadline": 2.0},
        "simulate": {
            "step_seconds": 0.1,
            "speed": {"kind": "log_normal", "sigma": 1.5},
        },
        "timeouts": {"lease": 2.0},
    },
    "ef21": {
        "algorithm": {
            "kind": "ef21",
            "buffer": 4,
            "server": {"kind": "ef21", "share": 0.33},
        },
        "simulate": {"dropout": 0.2, "upload_loss": 0.2, "away_seconds": 3.0},
    },
    "scaffold": {
        "algorithm": {
            "kind": "fed_buff",
            "buffer": 3,
            "staleness": {"kind": "constant"},
            "staleness_limit": 4,
            "client": {"kind": "scaffold", "steps": 3},
            "uplink": {"kind": "error_feedback", "inner": {"kind": "top_k"}},
            "downlink": {"kind": "top_k", "ratio": 0.1},
        },
        "simulate": {"dropout": 0.2, "speed": {"kind": "log_normal", "sigma": 1.0}},
    },
    "groups_that_change": {
        "algorithm": {
            "kind": "ds_sync",
            "buffer": 6,
            "deadline": 5.0,
            "client": {"kind": "ds_sync", "groups": 3, "steps": 3},
        },
        "simulate": {"dropout": 0.2, "speed": {"kind": "log_normal", "sigma": 1.0}},
    },
    "sites_in_step": {
        "algorithm": {
            "kind": "gaia",
            "buffer": 3,
            "ahead": 1,
            "uplink": {
                "kind": "error_feedback",
                "own_view": True,
                "inner": {"kind": "top_k", "ratio": 0.1},
            },
            "downlink": {"kind": "identity"},
        },
        "simulate": {
            "dropout": 0.2,
            "upload_loss": 0.2,
            "away_seconds": 8.0,
            "speed": {"kind": "log_normal", "sigma": 1.0},
        },
    },
    "the_last_version_for_all_who_wait": {
        "algorithm": {
            "kind": "fed_buff",
            "buffer": 3,
            "ahead": 2,
            "client": {"kind": "local_sgd", "steps": 2},
            "uplink": {
                "kind": "error_feedback",
                "inner": {"kind": "top_k", "ratio": 0.1},
            },
            "downlink": {"kind": "top_k", "ratio": 0.1},
            "ring_bytes": 0,
        },
        "simulate": {
            "step_seconds": 0.3,
            "speed": {"kind": "log_normal", "sigma": 1.0},
            "upload_loss": 0.2,
            "away_seconds": 3.0,
            "availability": {
                "kind": "on_off",
                "there_seconds": 3.0,
                "gone_seconds": 3.0,
            },
        },
        "evaluate": {"every_versions": 5},
        "stop": {"versions": 6},
    },
    "own_views": {
        "algorithm": {
            "kind": "fed_avg",
            "buffer": 4,
            "client": {"kind": "local_sgd", "steps": 4},
            "uplink": {
                "kind": "error_feedback",
                "own_view": True,
                "inner": {"kind": "top_k", "ratio": 0.05},
            },
        },
    },
    "fed_dyn": {
        "algorithm": {
            "kind": "fed_dyn",
            "buffer": 3,
            "client": {"kind": "fed_dyn", "steps": 3},
            "uplink": {"kind": "error_feedback", "inner": {"kind": "top_k"}},
        },
        "simulate": {"dropout": 0.2, "speed": {"kind": "log_normal", "sigma": 1.0}},
    },
    "fed_nova": {
        "algorithm": {
            "kind": "fed_nova",
            "buffer": 3,
            "synchronous": False,
            "staleness_limit": 4,
            "client": {"kind": "fed_prox", "epochs": 2, "momentum": 0.5},
        },
        "simulate": {"dropout": 0.2, "speed": {"kind": "log_normal", "sigma": 1.0}},
    },
    "parts_of_the_work": {
        "algorithm": {
            "kind": "flexible_participation",
            "buffer": 3,
            "synchronous": False,
            "staleness_limit": 1,
            "uplink": {
                "kind": "error_feedback",
                "inner": {"kind": "identity"},
            },
        },
        "simulate": {"dropout": 0.2, "speed": {"kind": "log_normal", "sigma": 1.5}},
        "stop": {"versions": 24},
    },
    "arrivals": {
        "algorithm": {
            "kind": "flexible_participation",
            "aggregator": {"kind": "flexible_participation", "boost": 2.0},
            "buffer": 3,
            "synchronous": False,
            "staleness_limit": 4,
        },
        "simulate": {
            "step_seconds": 1.0,
            "availability": {
                "kind": "on_off",
                "there_seconds": 20.0,
                "gone_seconds": 20.0,
            },
        },
    },
    "mifa": {
        "algorithm": {"kind": "mifa", "buffer": 3},
        "simulate": {"dropout": 0.2, "speed": {"kind": "log_normal", "sigma": 1.0}},
    },
    "no_past_messages": {
        "algorithm": {
            "kind": "latecomer",
            "buffer": 3,
            "ring_bytes": 0,
            "uplink": {"kind": "cyclic"},
        },
        "simulate": {"speed": {"kind": "log_normal", "sigma": 1.5}},
    },
}
CONTROLLED: dict[str, dict[str, Any]] = {
    "slow_links": {
        "algorithm": {
            "kind": "fed_buff",
            "buffer": 3,
            "uplink": {
                "kind": "error_feedback",
                "inner": {"kind": "top_k", "ratio": 0.2},
            },
            "controllers": [{"kind": "bandwidth", "upload_time": 0.5}],
        },
        "simulate": {
            "link": {"up_mbit": 0.0005, "spread": {"kind": "log_normal", "sigma": 1.0}},
            "upload_loss": 0.2,
            "ack_loss": 0.2,
        },
        "stop": {"versions": 24},
    },
    "i_prof": {
        "algorithm": {
            "kind": "fed_buff",
            "buffer": 3,
            "client": {"kind": "local_sgd", "epochs": 1},
            "controllers": [{"kind": "i_prof", "seconds": 0.08, "joules": 0.5}],
        },
        "simulate": {
            "speed": {"kind": "log_normal", "sigma": 1.0},
            "jitter": {"kind": "log_normal", "sigma": 0.05},
            "devices": {"models": 4, "watts": 5.0},
            "dropout": 0.2,
            "upload_loss": 0.1,
            "away_seconds": 2.0,
        },
    },
    "i_prof_of_batches": {
        "algorithm": {
            "kind": "fleet",
            "controllers": [{"kind": "i_prof", "seconds": 0.01, "each": "client"}],
            "update_filter": {"kind": "fleet_controller", "size_percentile": 20},
        },
        "simulate": {"speed": {"kind": "log_normal", "sigma": 1.0}},
        "stop": {"versions": 60},
    },
    "refused_before": {
        "algorithm": {
            "kind": "fleet",
            "client": {"kind": "local_sgd", "epochs": 1, "batch": 20},
            "update_filter": {
                "kind": "fleet_controller",
                "size_percentile": 30,
                "similarity_percentile": 20,
                "window": 20,
                "ask_again": 0.1,
            },
        },
        "simulate": {
            "speed": {"kind": "log_normal", "sigma": 1.0},
            "dropout": 0.1,
            "upload_loss": 0.1,
            "ack_loss": 0.1,
            "away_seconds": 0.5,
        },
        "stop": {"versions": 60},
    },
    "refused_before_of_cohorts": {
        "algorithm": {
            "kind": "fed_avg",
            "buffer": 4,
            "client": {"kind": "local_sgd", "epochs": 1},
            "controllers": [{"kind": "i_prof", "seconds": 0.08}],
            "update_filter": {
                "kind": "fleet_controller",
                "size_percentile": 40,
                "ask_again": 0.3,
            },
        },
        "simulate": {"speed": {"kind": "log_normal", "sigma": 1.0}, "dropout": 0.1},
    },
    "ada_comm": {
        "algorithm": {
            "kind": "fed_avg",
            "buffer": 4,
            "client": {"kind": "local_sgd", "steps": 16, "lr": 0.2},
            "controllers": [
                {"kind": "ada_comm", "period": 0.5},
                {"kind": "i_prof", "seconds": 0.1},
            ],
        },
        "simulate": {"speed": {"kind": "log_normal", "sigma": 1.0}},
    },
    "daily_budgets": {
        "algorithm": {
            "kind": "fed_buff",
            "buffer": 3,
            "uplink": {"kind": "error_feedback", "inner": {"kind": "cyclic"}},
            "controllers": [{"kind": "bandwidth", "daily": 9000}],
        },
        "simulate": {"step_seconds": 600.0, "dropout": 0.2, "upload_loss": 0.2},
        "timeouts": {"lease": 86400.0},
        "evaluate": {"every_versions": 1},  # no answer without a task has a model
        "stop": {"versions": 40},
    },
}


def simulated(folder: Path, kind: str, settings: dict[str, Any]) -> Results:
    simulate = {"clients": 12, **settings.get("simulate", {}), "engine": {"kind": kind}}
    config = {
        "stop": {"versions": 12},
        **settings,
        "simulate": simulate,
    }
    return latecomer.run(config, WORKLOAD, folder=folder / kind)


def told(results: Results) -> list[tuple[Any, ...]]:
    """What was decided, in order."""
    words = ["cid", "seq", "base", "staleness", "verdict", "samples", "steps", "nbytes"]
    return [(*attrgetter(*words)(r), tuple(_counted(r))) for r in results.of(Decided)]


def _counted(record: Decided) -> list[int]:
    """Its label counts, without the zeros that a tally adds behind them."""
    return [] if record.counts is None else np.trim_zeros(record.counts, "b").tolist()


def declined(results: Results) -> list[tuple[Any, ...]]:
    """The tasks that were refused before they were computed, in order."""
    return [
        (r.cid, r.version, r.planned, counts_list(r.counts), r.reason)
        for r in results.of(Declined)
    ]


def given(results: Results) -> list[tuple[Any, ...]]:
    """The tasks, and the bytes that came with them.

    Without those of the last version: who measures it, and when it came, is one thing.
    """
    return sorted(
        (r.cid, r.version, r.task, r.nbytes)
        for r in results.of(Leased)
        if r.task == "train" or r.cid in results.evaluators
    )


def evaluations(results: Results) -> list[tuple[Any, ...]]:
    """Who has evaluated which version, when and on how many samples."""
    return sorted(
        (r.cid, r.version, round(r.at, 6), r.samples)
        for r in results.of(Evaluated)
        if r.cid not in results.evaluators
    )


@pytest.mark.parametrize("name", SETTINGS | CONTROLLED)
def test_stacks_and_single_clients_tell_one_story(name: str, tmp_path: Path) -> None:
    settings = (SETTINGS | CONTROLLED)[name]
    exact = simulated(tmp_path, "exact", settings)
    stacked = simulated(tmp_path, "stacked", settings)
    assert told(stacked) == told(exact)
    assert declined(stacked) == declined(exact)
    for kind in (Decided, Declined, Stepped):
        ours, theirs = stacked.of(kind), exact.of(kind)
        assert [r.at for r in ours] == pytest.approx([r.at for r in theirs])
    ours_sent, theirs_sent = given(stacked), given(exact)
    if name == "no_past_messages":  # deflated values that are rounded another way
        ours_sent, theirs_sent = (
            [nbytes for *_, nbytes in sent] for sent in (ours_sent, theirs_sent)
        )
        assert ours_sent == pytest.approx(theirs_sent, abs=2)
    else:
        assert ours_sent == theirs_sent
    weights = [r.weight for r in exact.of(Decided)]
    assert [r.weight for r in stacked.of(Decided)] == pytest.approx(weights)
    losses = [r.loss for r in exact.of(Decided)]
    assert [r.loss for r in stacked.of(Decided)] == pytest.approx(losses, rel=1e-3)
    np.testing.assert_allclose(
        stacked.central["loss"], exact.central["loss"], rtol=1e-4
    )
    assert evaluations(stacked) == evaluations(exact)


@pytest.mark.parametrize(
    "algorithm",
    [
        {"kind": "fed_avg", "buffer": 4},
        {"kind": "fed_buff", "buffer": 2, "concurrency": 4},
    ],
    ids=["rounds", "buffered"],
)
def test_the_first_clients_are_drawn_by_the_seed(
    algorithm: dict[str, Any], tmp_path: Path
) -> None:
    def first(kind: str, seed: int) -> list[str]:
        settings = {"algorithm": algorithm, "stop": {"versions": 1}, "seed": seed}
        results = simulated(tmp_path / str(seed), kind, settings)
        tasks = [r for r in results.of(Leased) if r.version == 0 and r.task == "train"]
        return sorted(r.cid for r in tasks if r.at == tasks[0].at)

    drawn = [first("stacked", seed) for seed in range(4)]
    assert drawn[0] == first("exact", 0)
    assert all(len(cids) == 4 for cids in drawn)
    assert len({tuple(cids) for cids in drawn}) > 1


def test_all_clients_evaluate_the_last_version_in_both_engines(tmp_path: Path) -> None:
    for kind in ("exact", "stacked"):
        results = simulated(tmp_path, kind, SETTINGS["own_evaluations"])
        last = results.by_client
        assert last["client"] == sorted(f"client-{who}" for who in range(12))
        assert last["version"] == [12] * 12
        module, params = model(), results.model("last")
        module.load_state_dict({name: torch.tensor(params[name]) for name in params})
        for place, name in enumerate(last["client"]):
            x, y = valid_data(Client(name, int(name.removeprefix("client-")), 12))
            with torch.no_grad():
                loss = nn.CrossEntropyLoss()(module(torch.tensor(x)), torch.tensor(y))
            assert last["samples"][place] == len(y)
            assert last["loss"][place] == pytest.approx(float(loss), rel=1e-6)
        merged = results.summary["federated"]
        assert merged["clients"] == 12
        assert merged["loss_n"] == merged["samples"] == sum(last["samples"])
        assert merged["loss"] == pytest.approx(
            np.average(last["loss"], weights=last["samples"])
        )


@pytest.mark.parametrize("seed", range(12))
def test_rounds_in_a_row_tell_the_story_of_single_events(
    seed: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(seed)
    settings = {
        "seed": seed,
        "algorithm": {
            "kind": "fed_avg",
            "buffer": int(rng.integers(1, 6)),
            "over_selection": float(rng.choice([1.0, 1.0, 1.4])),
            "deadline": float(rng.choice([3.0, 30.0])),
            "staleness_limit": int(rng.choice([0, 2])),
        },
        "simulate": {
            "step_seconds": float(rng.choice([0.05, 0.5])),
            "dropout": float(rng.choice([0.0, 0.2])),
            "speed": {"kind": "log_normal", "sigma": float(rng.choice([0.1, 1.5]))},
            "link": {
                "latency": float(rng.choice([0.0, 1.0])),
                "latency_spread": {"kind": "log_normal", "sigma": 1.0},
            },
        },
        "timeouts": {"lease": float(rng.choice([2.0, 1000.0])), "hold": 60.0},
        "evaluate": {"every_versions": int(rng.integers(1, 4))},
    }
    exact = simulated(tmp_path, "exact", settings)
    stacked = simulated(tmp_path, "stacked", settings)
    assert told(stacked) == told(exact)
    assert given(stacked) == given(exact)
    times = [r.at for r in exact.of(Decided)]
    assert [r.at for r in stacked.of(Decided)] == pytest.approx(times)
    np.testing.assert_allclose(
        stacked.central["loss"], exact.central["loss"], rtol=1e-4
    )


@pytest.mark.parametrize(("kind", "pulls"), [("stacked", 2), ("exact", 8)])
def test_where_no_connection_can_break_an_evaluator_is_answered_with_a_model_alone(
    tmp_path: Path, kind: str, pulls: int
) -> None:
    events: list[object] = []
    config = {
        "algorithm": {"kind": "fed_buff", "buffer": 4},
        "timeouts": {"hold": 20.0},
        "simulate": {"clients": 4, "step_seconds": 5.0, "engine": {"kind": kind}},
        "stop": {"versions": 1},
    }
    latecomer.run(
        config,
        WORKLOAD,
        folder=tmp_path,
        on_event=lambda _, event: events.append(event),
    )
    pulled = [e for e in events if isinstance(e, ClientPulled) and e.pull.cid == NAME]
    assert len(pulled) == pulls


def test_acknowledgements_may_not_wait_while_somebody_may_get_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = SETTINGS["links_that_differ"]
    right = simulated(tmp_path / "right", "stacked", settings)
    monkeypatch.setattr(Rounds, "is_settled", True)
    wrong = simulated(tmp_path / "wrong", "stacked", settings)
    assert told(wrong) != told(right)


def test_a_client_whose_data_cannot_be_read_at_first(tmp_path: Path) -> None:
    def told_of(kind: str) -> list[Any]:
        asked: list[str] = []

        def sometimes(client: Any) -> Any:
            asked.append(client.name)
            if client.index == 2 and asked.count(client.name) < 3:
                raise OSError("not mounted yet")
            return train_data(client)

        workload = TorchWorkload(
            model=model, loss=nn.CrossEntropyLoss(), train_data=sometimes
        )
        config = {
            "algorithm": {"kind": "fed_buff", "buffer": 3},
            "simulate": {"clients": 6, "step_seconds": 0.5, "engine": {"kind": kind}},
            "stop": {"versions": 6},
        }
        results = latecomer.run(config, workload, folder=tmp_path / kind)
        failed = [(r.at, r.cid) for r in results.of(Failed)]
        leased = sorted((r.at, r.cid, r.nbytes) for r in results.of(Leased))
        assert failed
        return [*told(results), *failed, *leased]

    assert told_of("stacked") == told_of("exact")


def strange_targets(client: Any) -> Any:
    """One client has a class that the model does not know."""
    x, y = train_data(client)
    return x, np.full_like(y, 12) if client.index == 2 else y


def broken_loss(out: Any, y: Any) -> Any:
    if int(y.max()) > 9:
        raise ValueError("no such class")
    return nn.functional.cross_entropy(out, y)


@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(), broken_loss])
def test_a_client_whose_training_raises_fails_alone(loss: Any, tmp_path: Path) -> None:
    def run(kind: str, uplink: dict[str, Any]) -> Results:
        workload = TorchWorkload(model=model, loss=loss, train_data=strange_targets)
        config = {
            "algorithm": {"kind": "fed_buff", "buffer": 3, "uplink": uplink},
            "simulate": {"clients": 6, "step_seconds": 0.5, "engine": {"kind": kind}},
            "stop": {"versions": 12},
        }
        return latecomer.run(config, workload, folder=tmp_path / kind / uplink["kind"])

    top_k = {"kind": "error_feedback", "inner": {"kind": "top_k", "ratio": 0.1}}
    stacked, exact = run("stacked", top_k), run("exact", top_k)
    failed = [(r.at, r.cid) for r in exact.of(Failed)]
    assert len(failed) > 1
    assert [(r.at, r.cid) for r in stacked.of(Failed)] == failed
    assert "File " in stacked.of(Failed)[0].error
    assert told(stacked) == told(exact)
    plain = run("stacked", {"kind": "identity"})
    assert {r.cid for r in plain.of(Failed)} == {"client-2"}
    assert len(plain.of(Stepped)) == 12


def test_bytes_count_of_those_who_deliver_before_one_who_fails(tmp_path: Path) -> None:
    def last_of_all(client: Any) -> Any:
        x, y = train_data(client)
        return x, np.full_like(y, 12) if client.index == 3 else y

    workload = TorchWorkload(model=model, loss=broken_loss, train_data=last_of_all)
    config = {
        "algorithm": {"kind": "fed_avg", "buffer": 5},
        "simulate": {"clients": 6, "speed": {"kind": "log_normal", "sigma": 1.0}},
        "stop": {"versions": 8},
    }
    results = latecomer.run(config, workload, folder=tmp_path / "run")
    assert results.of(Failed)
    sent, delivered = Counter[str](), Counter[str]()
    for record in results.of(Decided):
        sent[record.cid] += record.nbytes
        delivered[record.cid] += 1
    book = read_traffic(results.folder)
    assert book is not None
    loads = {lane.cid: x for lane, x in book.lanes().items() if lane.way == "up"}
    assert {cid: load.payload for cid, load in loads.items()} == sent
    assert {cid: load.transfers for cid, load in loads.items()} == delivered


def test_a_failure_is_still_known_after_a_snapshot() -> None:
    error = UserCodeError("training raised ValueError: no such class")
    error.__cause__ = ValueError("no such class")
    arrays: dict[str, Any] = {}
    saved = json.loads(json.dumps(Stack.failed(Failure.of(error)).dump(0, "", arrays)))
    loaded = Stack.load(saved, "", arrays, (1,))
    assert loaded.sound == [False]
    assert loaded.failure is not None
    again = loaded.failure.error()
    assert (type(again), str(again)) == (UserCodeError, str(error))
    assert "ValueError: no such class" in str(again.__cause__)


class Choosy(nn.Module):
    """It looks at values to decide what to do."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(64, 10)

    def forward(self, x: Any) -> Any:
        return self.inner(x) if float(x.sum()) < 1e9 else self.inner(-x)


def test_a_module_that_cannot_be_stacked_is_trained_one_by_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    workload = TorchWorkload(
        model=Choosy, loss=nn.CrossEntropyLoss(), train_data=train_data
    )
    config = {"stop": {"versions": 2}, "simulate": {"clients": 3}}
    with caplog.at_level("INFO", "fedsim"):
        results = latecomer.run(config, workload, folder=tmp_path / "run")
    assert "clients are trained one by one: " in caplog.text
    assert len(results.of(Stepped)) == 2


def test_clients_that_draw_by_gradients_are_trained_one_by_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = {"kind": "prioritised_sgd", "steps": 3, "priority": "estimate"}
    config = {
        "algorithm": {"kind": "fed_buff", "buffer": 2, "client": client},
        "stop": {"versions": 4},
        "simulate": {"clients": 3},
    }
    with caplog.at_level("INFO", "fedsim"):
        results = latecomer.run(config, WORKLOAD, folder=tmp_path / "run")
    assert (
        "clients are trained one by one: prioritised_sgd draws the samples of a step "
        "by the gradients of the steps before" in caplog.text
    )
    assert len(results.of(Stepped)) == 4


def test_what_a_crowd_has_moved_is_written_in_the_order_of_its_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows in another order would take longer to write."""
    written: list[Lane] = []
    save = TrafficFile.save

    def watched(
        self: TrafficFile, traffic: Traffic, others: Iterable[LaneRow] | None = None
    ) -> None:
        rows = list(others or ())
        written.extend(Lane(*row[:3]) for row in rows)
        save(self, traffic, rows)

    monkeypatch.setattr(TrafficFile, "save", watched)
    results = simulated(tmp_path, "stacked", SETTINGS["latecomer"])
    book = read_traffic(results.folder)
    assert book is not None
    assert len(written) >= 2 * 12
    assert written == sorted(lane for lane in book.lanes() if lane.cid != NAME)


def test_only_the_exact_engine_keeps_updates(tmp_path: Path) -> None:
    stacked = simulated(tmp_path, "stacked", SETTINGS["fed_avg"])
    journal = Journal.open(stacked.folder, read_only=True)
    with pytest.raises(JournalError, match="but no updates"):
        recover(journal)
    found = verify(journal)  # the rest can be
    journal.close()
    assert (found.versions, found.recomputed) == (stacked.versions["version"][-1], 0)
    assert found.accepted == found.applied + found.waiting > 0
    assert "decisions (a simulation in stacks keeps no updates)" in (
        found.contents.unchecked
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "algorithm",
    [
        {"kind": "fed_avg", "buffer": 3, "over_selection": 1.4, "deadline": DAY},
        {"kind": "latecomer", "buffer": 3},
    ],
    ids=["rounds", "asynchronous"],
)
def test_a_year_of_phones_that_are_seldom_there_leaves_nothing_behind(
    algorithm: dict[str, Any], tmp_path: Path
) -> None:
    config = {
        "algorithm": algorithm,
        "stop": {"seconds": YEAR},
        "simulate": {
            "clients": 8,
            "step_seconds": 200.0,
            "speed": {"kind": "log_normal", "sigma": 1.0},
            "dropout": 0.1,
            "upload_loss": 0.1,
            "ack_loss": 0.1,
            "availability": {
                "kind": "on_off",
                "there_seconds": 1800.0,
                "gone_seconds": 257_400.0,
            },
        },
    }
    months: list[int] = []  # bytes in use at their ends

    def watch(run: Any, event: Any) -> None:
        if event.at > MONTH * (len(months) + 1):
            months.append(tracemalloc.get_traced_memory()[0])

    tracemalloc.start()
    try:
        results = latecomer.run(
            config, WORKLOAD, folder=tmp_path / "run", on_event=watch
        )
    finally:
        tracemalloc.stop()
    assert results.summary["ended"] == "3.1536e+07 seconds"
    assert len(results.of(Decided)) > 500
    assert len(months) == 12
    assert months[-1] < months[1] + 2e6  # all its updates would be four


def test_a_run_delays_the_search_for_cycles_and_exempts_what_was_there() -> None:
    usual = gc.get_threshold()
    with few_collections():
        assert gc.get_threshold()[0] > usual[0]
        assert gc.get_freeze_count()
    assert gc.get_threshold() == usual
    assert not gc.get_freeze_count()
