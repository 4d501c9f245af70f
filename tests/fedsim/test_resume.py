"""A simulation that was interrupted goes on as if nothing had happened."""

import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import latecomer
from fedcore.coordinator import Rounds
from fedcore.coordinator.events import Decided, Evaluated, Stepped
from fedcore.errors import ConfigError
from fedcore.workload import Client
from fedrun.journal import Journal, verify
from fedrun.journal.snapshots import read_snapshot
from fedrun.traffic_file import read_traffic
from fedsim.evaluator import NAME
from fedview.results import Results
from tests.fedsim import toys
from tests.fedsim.test_stacked import CONTROLLED, SETTINGS, WORKLOAD
from tests.fedsim.toys import toy

pytest.importorskip("torch")


ONE_BY_ONE = (  # all of them pass; these hold each kind of state
    "ada_comm",
    "arrivals",
    "cyclic",
    "fates",
    "groups_that_change",
    "i_prof",
    "leases_end",
    "mifa",
    "overlap",
    "overlap_with_momentum",
    "own_evaluations",
    "own_views",
    "refused_before",
    "scaffold",
)


def config(settings: dict[str, Any], **engine: Any) -> dict[str, Any]:
    simulate = {"clients": 12, **settings.get("simulate", {}), "engine": engine}
    return {"stop": {"versions": 12}, **settings, "simulate": simulate}


def told(results: Results) -> list[Any]:
    decided = [
        (r.at, r.cid, r.seq, r.base, r.verdict, r.weight, r.loss, r.nbytes)
        for r in results.of(Decided)
    ]
    steps = [(r.at, r.version, r.digest) for r in results.of(Stepped)]
    return [decided, steps, [dict(r.values) for r in results.of(Evaluated)]]


def travelled(results: Results) -> dict[Any, tuple[int, int]]:
    """Transfers and bytes of the clients; an evaluator that begins anew gets more."""
    traffic = read_traffic(results.folder)
    assert traffic is not None
    return {
        lane: (load.transfers, load.payload)
        for lane, load in traffic.lanes().items()
        if lane.cid != NAME
    }


class InterruptAt:
    """Ctrl-C after so many events, heard at the end of the one that goes on."""

    def __init__(self, count: int) -> None:
        self.left = count

    def __call__(self, *_: Any) -> None:
        self.left -= 1
        if not self.left:
            signal.raise_signal(signal.SIGINT)


CASES = [(name, "stacked") for name in SETTINGS | CONTROLLED]
CASES += [(name, "exact") for name in ONE_BY_ONE]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_what_follows_is_what_would_have_followed(
    name: str, kind: str, tmp_path: Path
) -> None:
    settings = config((SETTINGS | CONTROLLED)[name], kind=kind)
    whole = latecomer.run(settings, WORKLOAD, folder=tmp_path / "whole")
    folder = tmp_path / "parts"
    for events in (7, 5) if kind == "stacked" else (31, 9):
        with pytest.raises(KeyboardInterrupt):
            latecomer.run(
                settings,
                WORKLOAD,
                folder=folder,
                on_event=InterruptAt(events),
                resume=folder.exists(),
            )
    parts = latecomer.run(settings, WORKLOAD, folder=folder, resume=True)
    assert told(parts) == told(whole)
    assert travelled(parts) == travelled(whole)


def test_it_goes_back_to_an_older_snapshot_if_the_newest_one_is_damaged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = config(SETTINGS["fed_buff"])
    whole = latecomer.run(settings, WORKLOAD, folder=tmp_path / "whole")
    folder = tmp_path / "parts"
    for events in (7, 5):
        with pytest.raises(KeyboardInterrupt):
            latecomer.run(
                settings,
                WORKLOAD,
                folder=folder,
                on_event=InterruptAt(events),
                resume=folder.exists(),
            )
    newest = max((folder / "snapshots").glob("*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:-9] + b"\xff" * 9)
    parts = latecomer.run(settings, WORKLOAD, folder=folder, resume=True)
    assert told(parts) == told(whole)
    assert "going back to an older snapshot" in caplog.text


@pytest.mark.parametrize("name", ["fed_buff", "top_k", "over_selection"])
def test_an_interruption_between_two_versions_is_as_good(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, deliver = SETTINGS[name], Rounds.deliver
    whole = latecomer.run(config(settings), WORKLOAD, folder=tmp_path / "whole")
    interrupt = InterruptAt(8)

    def delivered(self: Rounds, cid: str, base: int) -> bool:
        interrupt()
        return deliver(self, cid, base)

    monkeypatch.setattr(Rounds, "deliver", delivered)
    for count in (7, 8, 10, 0):
        interrupt.left, folder = count, tmp_path / "parts"
        try:
            parts = latecomer.run(
                config(settings), WORKLOAD, folder=folder, resume=folder.exists()
            )
        except KeyboardInterrupt:
            assert count
    assert told(parts) == told(whole)


FATES: dict[str, Any] = {
    "algorithm": {
        "kind": "fed_buff",
        "buffer": 3,
        "uplink": {"kind": "error_feedback", "inner": {"kind": "top_k", "ratio": 0.4}},
    },
    "simulate": {
        "speed": {"kind": "log_normal", "sigma": 1.0},
        "dropout": 0.2,
        "upload_loss": 0.2,
        "ack_loss": 0.2,
        "away_seconds": 2.0,
    },
    "evaluate": {"every_versions": 1},
}


def test_one_by_one_every_moment_is_as_good(tmp_path: Path) -> None:
    settings = config(FATES)
    whole = told(latecomer.run(settings, toy(), folder=tmp_path / "whole"))
    folder = tmp_path / "parts"
    for events in (16, 3, 4, 5, 6, 7, 8, 9, 10, 11):
        with pytest.raises(KeyboardInterrupt):
            latecomer.run(
                settings,
                toy(),
                folder=folder,
                on_event=InterruptAt(events),
                resume=folder.exists(),
            )
    assert told(latecomer.run(settings, toy(), folder=folder, resume=True)) == whole


@pytest.mark.parametrize(("seed", "events"), [(849, 687), (6238, 515)])
def test_one_by_one_a_lease_whose_end_was_void_may_end_after_all(
    seed: int, events: int, tmp_path: Path
) -> None:
    simulate = {
        "dropout": 0.4,
        "ack_loss": 0.5,
        "upload_loss": 0.3,
        "away_seconds": 4.0,
        "step_seconds": 0.3,
        "speed": {"kind": "log_normal", "sigma": 1.0},
    }
    settings = config(
        {
            "algorithm": {"kind": "fed_buff", "buffer": 6, "ahead": 1},
            "simulate": simulate,
            "timeouts": {"heartbeat": 0.5, "lost": 1.0, "hold": 1.0, "lease": 6.0},
            "seed": seed,
            "stop": {"versions": 25},
        },
        kind="exact",
    )
    whole = told(latecomer.run(settings, WORKLOAD, folder=tmp_path / "whole"))
    folder = tmp_path / "parts"
    with pytest.raises(KeyboardInterrupt):
        latecomer.run(settings, WORKLOAD, folder=folder, on_event=InterruptAt(events))
    assert told(latecomer.run(settings, WORKLOAD, folder=folder, resume=True)) == whole


def test_one_by_one_a_client_that_gave_up_does_not_come_back(tmp_path: Path) -> None:
    def train_data(client: Client) -> Any:
        if client.index == 2:
            raise ValueError("no such file")
        return toys.train_data(client)

    settings = config({**FATES, "stop": {"versions": 40}})
    workload = toy(train_data=train_data)
    whole = told(latecomer.run(settings, workload, folder=tmp_path / "whole"))
    folder = tmp_path / "parts"
    with pytest.raises(KeyboardInterrupt):
        latecomer.run(settings, workload, folder=folder, on_event=InterruptAt(150))
    assert told(latecomer.run(settings, workload, folder=folder, resume=True)) == whole


@pytest.mark.parametrize("events", [6, 7, 8])
def test_no_evaluation_is_lost(events: int, tmp_path: Path) -> None:
    settings = {
        "seed": 86,
        "algorithm": {"kind": "fleet", "uplink": {"kind": "semi_discrete"}},
        "simulate": {"clients": 8, "step_seconds": 0.5},
        "evaluate": {"every_versions": 1},
        "stop": {"versions": 8},
    }
    whole = latecomer.run(config(settings), WORKLOAD, folder=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        latecomer.run(
            config(settings),
            WORKLOAD,
            folder=tmp_path / "parts",
            on_event=InterruptAt(events),
        )
    parts = latecomer.run(
        config(settings), WORKLOAD, folder=tmp_path / "parts", resume=True
    )
    assert told(parts) == told(whole)


def die(run: Any, event: Any) -> None:
    if run.coordinator.state.version == 7:
        raise SystemExit


def kill(settings: dict[str, Any], folder: Path, **engine: Any) -> None:
    """After a snapshot."""
    told_to = config(settings, **engine)
    if engine.get("kind") == "exact":
        told_to["journal"] = {"snapshot_records": 20}
    else:
        told_to["simulate"]["engine"]["snapshot_seconds"] = 1e-9
    with pytest.raises(SystemExit):
        latecomer.run(told_to, WORKLOAD, folder=folder, on_event=die)


@pytest.mark.parametrize("kind", ["stacked", "exact"])
def test_a_killed_run_goes_on_from_its_last_snapshot(kind: str, tmp_path: Path) -> None:
    settings, folder = SETTINGS["top_k"], tmp_path / "killed"
    own = config(settings, kind=kind)
    whole = latecomer.run(own, WORKLOAD, folder=tmp_path / "whole")
    kill(settings, folder, kind=kind)
    resumed = latecomer.run(own, WORKLOAD, folder=folder, resume=True)
    assert told(resumed) == told(whole)
    if kind == "exact":  # its journal can be read by all that reads journals
        with closing(Journal.open(folder, read_only=True)) as journal:
            verify(journal)


def test_another_engine_cannot_go_on(tmp_path: Path) -> None:
    settings, folder = SETTINGS["top_k"], tmp_path / "killed"
    kill(settings, folder, kind="exact")
    with pytest.raises(ConfigError, match="was simulated one by one, and cannot go on"):
        latecomer.run(config(settings), WORKLOAD, folder=folder, resume=True)


def test_a_snapshot_holds_the_end_of_no_lease_but_the_newest(tmp_path: Path) -> None:
    settings = config(
        {
            "algorithm": {"kind": "fed_buff", "buffer": 5},
            "simulate": {"clients": 10},
            "stop": {"versions": 40},
        }
    )
    with pytest.raises(KeyboardInterrupt):
        latecomer.run(settings, WORKLOAD, folder=tmp_path, on_event=InterruptAt(30))
    newest = max((tmp_path / "snapshots").glob("*.safetensors"))
    scalars, _ = read_snapshot(newest)
    assert scalars["version"] > 10  # more leases than clients have been given
    assert 0 < len(scalars["simulation"]["clients"]["queue"]["expiries"]) <= 10


def test_one_by_one_a_snapshot_holds_no_timer_for_which_nobody_waits(
    tmp_path: Path,
) -> None:
    settings = config(
        {"algorithm": {"kind": "fed_avg", "buffer": 3}, "stop": {"versions": 90}},
        kind="exact",
    )
    with pytest.raises(KeyboardInterrupt):
        latecomer.run(settings, toy(), folder=tmp_path, on_event=InterruptAt(400))
    newest = max((tmp_path / "snapshots").glob("*.safetensors"))
    scalars, _ = read_snapshot(newest)
    assert scalars["version"] > 20
    [saved] = [v for k, v in scalars["simulation"]["clients"]["map"] if k == "events"]
    assert len(saved) <= 3 * 12  # a message, a lease and a pull of each client


def test_a_snapshot_of_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, folder = SETTINGS["fed_avg"], tmp_path / "run"
    monkeypatch.setattr("fedsim.snapshots._LAYOUT", 1)
    kill(settings, folder)
    monkeypatch.undo()
    with pytest.raises(ConfigError, match="taken by another version of latecomer"):
        latecomer.run(config(settings), WORKLOAD, folder=folder, resume=True)


def test_what_cannot_go_on_is_refused(tmp_path: Path) -> None:
    settings, folder = SETTINGS["fed_avg"], tmp_path / "run"
    with pytest.raises(ConfigError, match="there is no run to go on with"):
        latecomer.run(config(settings), WORKLOAD, folder=folder, resume=True)
    with pytest.raises(ConfigError, match="say which run"):
        latecomer.run(config(settings), WORKLOAD, resume=True)
    latecomer.run(config(settings), WORKLOAD, folder=folder)
    with pytest.raises(ConfigError, match="this run has ended: 12 versions"):
        latecomer.run(config(settings), WORKLOAD, folder=folder, resume=True)
    with pytest.raises(SystemExit):
        latecomer.run(config(settings), WORKLOAD, folder=tmp_path / "new", on_event=die)
    with pytest.raises(ConfigError, match="before its first snapshot"):
        latecomer.run(config(settings), WORKLOAD, folder=tmp_path / "new", resume=True)
    other = config({**settings, "seed": 5})
    with pytest.raises(ConfigError, match="began with other settings: seed: 0 -> 5"):
        latecomer.run(other, WORKLOAD, folder=folder, resume=True)
    replay = config(settings) | {"simulate": {"arrivals": str(folder)}}
    with pytest.raises(ConfigError, match="replayed in one go"):
        latecomer.run(replay, WORKLOAD, folder=tmp_path / "replay", resume=True)
