"""A recorded order of arrival, simulated again."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fedsim.simulation
import latecomer
from fedcore.coordinator.events import Decided, Enrolled, HistoryForked
from fedcore.errors import ConfigError
from fedrun.config import parse_config
from fedrun.journal import Journal
from fedrun.run import Run, start_run
from fedview.results import Results
from tests.fedrun.journal.runs import change
from tests.fedsim import toys
from tests.fedsim.test_run import EVENTFUL, ROUNDS
from tests.fedsim.toys import settings, toy

MIXED: dict[str, Any] = {"algorithm": {"kind": "fed_async", "buffer": 1}}


def simulate(folder: Path, changes: dict[str, Any], **simulate: Any) -> list[str]:
    """The versions of a run."""
    config = settings(**changes)
    config["simulate"] = {**config["simulate"], **simulate}
    latecomer.run(config, toy(), folder=folder)
    return toys.digests(toys.records(folder))


@pytest.mark.parametrize(
    "changes", [{}, EVENTFUL, ROUNDS, MIXED], ids=["buff", "eventful", "avg", "async"]
)
def test_the_same_arrivals_make_the_same_versions_bit_for_bit(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    first = simulate(tmp_path / "first", changes)
    again = simulate(tmp_path / "again", changes, arrivals=str(tmp_path / "first"))
    assert len(first) == 8
    assert again == first


def test_a_late_message_that_was_sent_again_does_not_halve_the_work(
    tmp_path: Path,
) -> None:
    """The recorded steps tell it; the client that is simulated sends it once."""
    changes = {
        "algorithm": {
            "kind": "fed_avg",
            "buffer": 3,
            "over_selection": 2.0,
            "client": {"kind": "local_sgd", "lr": 0.05, "steps": 8, "batch": 4},
        },
        "simulate": {**ROUNDS["simulate"], "ack_loss": 0.6},
        "stop": {"versions": 20},
    }
    first = simulate(tmp_path / "first", changes)
    late = [
        record.steps
        for record in toys.records(tmp_path / "first")
        if isinstance(record, Decided)
    ]
    assert set(late) >= {4, 8}
    again = simulate(tmp_path / "again", changes, arrivals=str(tmp_path / "first"))
    assert again == first


def test_other_settings_on_the_same_arrivals_are_a_what_if(tmp_path: Path) -> None:
    first = simulate(tmp_path / "first", EVENTFUL)
    constant = {"kind": "latecomer", "buffer": 2, "staleness": {"kind": "constant"}}
    changes = {**EVENTFUL, "algorithm": constant}
    then = simulate(tmp_path / "then", changes, arrivals=str(tmp_path / "first"))
    assert len(then) == len(first)
    assert then != first


def test_with_another_buffer_clients_begin_with_the_version_of_that_moment(
    tmp_path: Path,
) -> None:
    simulate(tmp_path / "first", {})
    config = {"algorithm": {"buffer": 4}}
    versions = simulate(tmp_path / "again", config, arrivals=str(tmp_path / "first"))
    assert len(versions) == 4
    first, again = Results(tmp_path / "first"), Results(tmp_path / "again")
    assert again.updates["client"] == first.updates["client"]
    # Two recorded versions are one version here, once their updates are all there.
    assert again.updates["base"] == [base // 2 for base in first.updates["base"]]


def test_a_client_that_never_took_part_cannot_be_left_out(tmp_path: Path) -> None:
    simulate(tmp_path / "first", {})
    arrivals = {"arrivals": str(tmp_path / "first"), "without": ["eve"]}
    with pytest.raises(ConfigError, match=r"simulate\.without: no client eve; there"):
        simulate(tmp_path / "again", {}, **arrivals)
    with pytest.raises(ConfigError, match="without leaves out clients of a record"):
        simulate(tmp_path / "again", {}, without=["client-1"])


def test_a_run_without_clients_records_no_order(tmp_path: Path) -> None:
    empty = parse_config(settings(server={"journal": str(tmp_path / "empty")}))
    model = toy().flat()
    run = start_run(empty, model.spec, model.initial(toys.KEY), 0.0, durable=False)
    run.journal.close()
    with pytest.raises(ConfigError, match=r"simulate\.arrivals: .*empty has no client"):
        simulate(tmp_path / "again", {}, arrivals=str(tmp_path / "empty"))


def test_the_seconds_of_a_replay_count_from_the_beginning_of_the_recorded_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begun(config: Any, spec: Any, initial_D: Any, at: float, **names: Any) -> Run:
        return start_run(config, spec, initial_D, at + 1.7e9, **names)

    with monkeypatch.context() as patch:
        patch.setattr(fedsim.simulation, "start_run", begun)  # as of a real clock
        first = simulate(tmp_path / "first", {})
    seconds: dict[str, Any] = {"stop": {"versions": 8, "seconds": 1e6}}
    again = simulate(tmp_path / "again", seconds, arrivals=str(tmp_path / "first"))
    assert again == first
    ran, replayed = Results(tmp_path / "first"), Results(tmp_path / "again")
    assert replayed.started == ran.started == 1.7e9
    assert replayed.versions["seconds"] == ran.versions["seconds"]


def test_a_replay_is_measured_as_it_goes(tmp_path: Path) -> None:
    simulate(tmp_path / "first", {})
    simulate(tmp_path / "again", {}, arrivals=str(tmp_path / "first"))
    ran, again = Results(tmp_path / "first"), Results(tmp_path / "again")
    assert again.central == ran.central
    assert again.central["version"] == [0, 2, 4, 6, 8]


def test_a_recorded_run_that_never_ended_ends_with_its_last_record(
    tmp_path: Path,
) -> None:
    first = simulate(tmp_path / "first", {})
    closed = "(SELECT number FROM records WHERE kind = 'Closed')"
    change(tmp_path / "first", f"DELETE FROM records WHERE number >= {closed}")
    further = {"stop": {"versions": 20}}
    again = simulate(tmp_path / "again", further, arrivals=str(tmp_path / "first"))
    assert again == first
    assert Results(tmp_path / "again").summary["ended"] is None


def test_a_round_that_fewer_clients_filled_can_be_replayed(tmp_path: Path) -> None:
    algorithm = {"kind": "fed_avg", "buffer": 4}
    config = parse_config(settings(algorithm=algorithm))
    few = config.simulate.model_copy(update={"clients": 3})
    config = config.model_copy(update={"simulate": few})
    first = latecomer.run(config, toy(), folder=tmp_path / "first")
    changes = {"algorithm": {**algorithm, "deadline": None}}
    again = simulate(tmp_path / "again", changes, arrivals=str(first.folder))
    assert again == toys.digests(first.records)


def test_too_few_recorded_clients_for_an_algorithm_are_told(tmp_path: Path) -> None:
    simulate(tmp_path / "first", {}, clients=2)
    with pytest.raises(
        ConfigError, match=r"^2 clients are simulated, the algorithm needs 3$"
    ):
        simulate(
            tmp_path / "again",
            {"algorithm": {"min_clients": 3}},
            arrivals=str(tmp_path / "first"),
        )


def test_arrivals_of_clients_that_lost_their_memory_are_repeated_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The journal does not say what they had not sent."""
    simulate(tmp_path / "first", {})
    simulate(tmp_path / "again", {}, arrivals=str(tmp_path / "first"))
    assert "to the bit" not in caplog.text
    with closing(Journal.open(tmp_path / "first")) as journal:
        records = [entry.record for entry in journal.entries()]
        one = next(r for r in records if isinstance(r, Enrolled))
        last = records[-1].at
        forked = HistoryForked(at=last, epoch="0" * 16, version=8, reason="-")
        other = replace(one, name="judge", role="evaluator", at=last)
        judges = [replace(other, cid=cid) for cid in ("x", "y")]
        journal.append([replace(one, cid="another", at=last), *judges, forked])
    simulate(tmp_path / "third", {}, arrivals=str(tmp_path / "first"))
    (told,) = [text for text in caplog.messages if "to the bit" in text]
    assert "restored at version 8" in told
    assert f"{one.name} joined again under another id" in told
    assert "judge" not in told  # an evaluator has no memory
