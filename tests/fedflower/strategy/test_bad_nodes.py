"""Nodes of Flower that fail, vanish or return nonsense, on a virtual clock."""

import io
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcore.coordinator.events import Enrolled, Evaluated, Failed, Lost, Stepped
from fedcore.errors import LatecomerError, WorkloadError

pytest.importorskip("flwr.app")
from fedwire.records import RECORD
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from benchmarks.flower.virtual_grid import VirtualGrid, VirtualTime, jitter
from fedflower.mod import compressed
from fedflower.strategy import Latecomer
from tests.fedflower.strategy.app import NODES
from tests.fedflower.strategy.test_strategy import (
    accepted,
    grid_of,
    of,
    returning,
    started,
    verified,
)

pytestmark = pytest.mark.needs("flwr")


class OwnError(BaseException):
    """An error of a library that no handler of Exception catches."""


@pytest.mark.parametrize("with_mod", [True, False])
@pytest.mark.parametrize(
    ("fails", "asked_in_all"), [({3}, None), ({2, 3, 4, 5}, None), (range(2, 99), 6)]
)
def test_a_node_whose_evaluation_raised_is_asked_at_later_versions(
    fails: Any,
    asked_in_all: int | None,
    with_mod: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked: Counter[int] = Counter()

    def mod(message: Message, context: Any, call_next: Any) -> Message:
        if message.metadata.message_type == "evaluate":
            asked[context.node_id] += 1
            if asked[context.node_id] in fails:
                raise ValueError("not now")
        return call_next(message, context)

    grid, run = grid_of(*([compressed, mod] if with_mod else [mod])), tmp_path / "run"
    started(grid, run, versions=10, buffer=4, evaluate_nodes=True)
    assert len(of(run, Stepped)) == 10
    assert not of(run, Failed)
    ends = asked_in_all is not None
    assert min(asked.values()) > 6 or ends
    assert set(asked.values()) == {asked_in_all} or not ends
    done = Counter(record.cid for record in of(run, Evaluated))
    assert sum(done.values()) == sum(
        len(set(range(1, count + 1)) - set(fails)) for count in asked.values()
    )
    for node in NODES:
        assert caplog.text.count(f"node-{node} has no metrics of version ") == 1
        told = f"node-{node} evaluates no more: ValueError: not now"
        assert caplog.text.count(told) == ends


def test_nodes_that_are_gone_are_not_asked_again_and_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    grid = grid_of(fate=lambda node, nth: "unavailable" if nth >= 2 else "fine")
    original = grid.get_node_ids

    def there() -> Any:
        return original() if min(grid.counts.values()) < 3 else []

    grid.get_node_ids = there  # type: ignore[method-assign]
    started(grid, tmp_path / "run", versions=20, buffer=4, timeout=60.0)
    assert "no node has replied for 60 seconds" in caplog.text
    assert grid.pushed == 12
    assert len(of(tmp_path / "run", Lost)) == 4


def test_what_the_server_app_takes_for_evaluations_is_no_silence(
    tmp_path: Path,
) -> None:
    grid = grid_of(delay=lambda node, nth: 3.0)

    def slow(version: int, arrays: Any) -> MetricRecord:
        grid.clock.sleep(50.0)
        return MetricRecord({"loss": 1.0})

    run = tmp_path / "run"
    started(grid, run, versions=3, buffer=4, timeout=30.0, evaluate_fn=slow)
    assert len(of(run, Stepped)) == 3


def test_a_node_whose_app_would_end_its_process_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def mod(message: Message, context: Any, call_next: Any) -> Message:
        if context.node_id == NODES[1]:
            sys.exit(3)
        return call_next(message, context)

    run = tmp_path / "run"
    started(grid_of(compressed, mod), run, versions=4, buffer=3)
    assert len(of(run, Stepped)) == 4
    assert {failed.cid for failed in of(run, Failed)} == {
        row.cid for row in of(run, Enrolled) if row.name == f"node-{NODES[1]}"
    }
    assert "the ClientApp called sys.exit(3)" in caplog.text


@pytest.mark.parametrize("problem", [ValueError("now"), SystemExit(2), OwnError()])
def test_an_evaluation_at_the_server_that_fails_now_and_then_ends_nothing(
    problem: BaseException, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def now_and_then(version: int, arrays: Any) -> dict[str, Any]:
        if version % 2:
            raise problem
        return {"loss": np.float32(1.5), "hits": np.int64(3), "note": "fine"}

    run = tmp_path / "run"
    started(grid_of(), run, versions=4, buffer=4, evaluate_fn=now_and_then)
    assert [each.version for each in of(run, Evaluated)] == [0, 2, 4]
    assert of(run, Evaluated)[0].values == {"loss": 1.5, "hits": 3.0}
    assert len(of(run, Failed)) == 2
    assert "version 1, at the server: evaluate_fn " in caplog.text


def test_an_evaluation_at_the_server_that_never_worked_is_told_at_the_start(
    tmp_path: Path,
) -> None:
    grid = grid_of()
    with pytest.raises(WorkloadError, match=r"the metric 'loss' is an array of shape"):
        started(grid, tmp_path / "r", evaluate_fn=lambda *_: {"loss": np.zeros(2)})
    assert not grid.calls


@pytest.mark.parametrize("with_mod", [True, False])
@pytest.mark.parametrize("claim", [1e300, 2**41, -3, 0, float("nan")])
def test_an_absurd_number_of_examples_is_named(
    claim: float, with_mod: bool, tmp_path: Path
) -> None:
    def change(content: Any) -> None:
        for record in content.metric_records.values():
            record["num-examples"] = claim

    grid = grid_of(*([compressed] if with_mod else []), returning(change))
    with pytest.raises(LatecomerError, match=r"returned num-examples .*expected 1 to"):
        started(grid, tmp_path / "run")


def header(shape: tuple[int, ...]) -> bytes:
    found = io.BytesIO()
    told = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(found, told)
    return found.getvalue()


@pytest.mark.parametrize("data", [b"", b"PK\3\4no zip", header((10**15,)), b"\x80\4"])
def test_bytes_that_are_no_array_are_a_failure_of_their_node(
    data: bytes, tmp_path: Path
) -> None:
    def change(content: Any) -> None:
        for record in content.array_records.values():
            known = record["b1"]
            record["b1"] = Array(known.dtype, known.shape, known.stype, data)

    with pytest.raises(LatecomerError, match="every node failed 5 times"):
        started(grid_of(returning(change)), tmp_path / "run")


def test_metrics_that_are_no_numbers_are_not_kept(tmp_path: Path) -> None:
    def change(content: Any) -> None:
        for record in content.metric_records.values():
            record["odd"], record["odder"] = float("nan"), float("inf")

    started(grid_of(compressed, returning(change)), tmp_path / "run", buffer=4)
    assert {tuple(r.metrics or ()) for r in accepted(tmp_path / "run")} == {
        ("train_loss",)
    }
    assert verified(tmp_path / "run")


def test_thousands_of_metrics_of_an_evaluation_are_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def mod(message: Message, context: Any, call_next: Any) -> Message:
        reply = call_next(message, context)
        if message.metadata.message_type == "evaluate":
            for record in reply.content.metric_records.values():
                record.update({f"m{i}": 1.0 for i in range(3000)})
        return reply

    grid = grid_of(compressed, mod)
    started(grid, tmp_path / "run", buffer=4, evaluate_nodes=True)
    assert "evaluate: 3002 metrics, the limit is 64" in caplog.text
    assert not of(tmp_path / "run", Evaluated)


def test_a_node_that_never_keeps_its_state_gets_no_more_tasks(tmp_path: Path) -> None:
    def mod(message: Message, context: Any, call_next: Any) -> Message:
        reply = compressed(message, context, call_next)
        record = reply.content[RECORD]
        record.pop("pull", None)
        record["fault"] = "\x1b[31m" + "x" * 10_000
        return reply

    with pytest.raises(LatecomerError, match="every node failed 5 times"):
        started(grid_of(mod), tmp_path / "run")
    failed = of(tmp_path / "run", Failed)
    assert {r.error for r in failed} == {r"\x1b[31m" + "x" * 1995}
    assert len(of(tmp_path / "run", Enrolled)) <= 5 * 4


def test_a_mod_that_falls_silent_is_a_failure_and_gets_the_model_again(
    tmp_path: Path,
) -> None:
    replies: Counter[int] = Counter()

    def mod(message: Message, context: Any, call_next: Any) -> Message:
        reply = compressed(message, context, call_next)
        replies[context.node_id] += 1
        if replies[context.node_id] == 2:
            del reply.content[RECORD]
        return reply

    run = tmp_path / "run"
    started(grid_of(mod), run, versions=6, buffer=4)
    assert len(of(run, Stepped)) == 6
    assert {r.error.partition(": ")[2] for r in of(run, Failed)} == {
        "the reply lacks what its mod has to say"
    }


def test_a_node_that_joins_late_takes_over_batch_statistics(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    app = ClientApp(mods=[compressed])

    @app.train()  # type: ignore[untyped-decorator]
    def train(message: Message, context: Any) -> Message:
        record = message.content["arrays"]
        moved = {
            name: Array(array.numpy() + np.float32(0.01) * rng.random(500, np.float32))
            for name, array in record.items()
        }
        told = MetricRecord({"num-examples": 5})
        content = RecordDict({"arrays": ArrayRecord(moved), "metrics": told})
        return Message(content, reply_to=message)

    names = "weight", "norm.running_mean", "norm.running_var"
    first = ArrayRecord({name: Array(rng.random(500, np.float32)) for name in names})
    grid = VirtualGrid(app, VirtualTime(), list(NODES), jitter(0))
    for versions in (3, 6):
        strategy = Latecomer(
            journal=tmp_path / "run", kind="fed_buff", buffer=4, evaluate_nodes=False
        )
        strategy._clock = lambda start: grid.clock
        strategy.start(grid, first, versions)
        grid.forget()
    assert len(of(tmp_path / "run", Stepped)) == 6
    assert not of(tmp_path / "run", Failed)
