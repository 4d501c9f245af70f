"""Clients whose data or updates are no use: told by name, and not for ever."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import latecomer
from fedcore.coordinator.events import Failed
from fedcore.errors import UserCodeError, WorkloadError
from fedcore.user_code import MOST_FAILURES
from fedcore.workload import Client, Trained, TrainingTask
from fedsim.engines.fates import MANY
from fedview.report.client_timelines import timelines_of
from fedview.report.loss_summary import loss_summary
from fedview.results import Results
from tests.fedsim import toys
from tests.fedsim.toys import gradient, linear, points, toy

ENGINES = pytest.mark.parametrize("engine", ["exact", "stacked"])
TOYS = {"exact": toy, "stacked": linear}


def patient(engine: str) -> dict[str, Any]:
    """A run long enough for a client to fail as often as it may."""
    simulate = {"engine": {"kind": engine}, "step_seconds": 1.0}
    return toys.settings(
        simulate=simulate,
        stop={"versions": None, "seconds": 90},
        evaluate={"every_versions": 20},
    )


def broken_data(client: Client) -> tuple[Any, Any]:
    """Client 2 has a sample that is no number."""
    x, y = points(client.index + 1)
    if client.index == 2:
        x[3, 1] = np.nan
    return x, y


def no_data(client: Client) -> tuple[Any, Any]:
    """Client 2 has no file."""
    if client.index == 2:
        raise FileNotFoundError("part-2.npz")
    return points(client.index + 1)


class OwnError(BaseException):
    """An error of a library that no handler of Exception catches."""


class Mute(Exception):  # noqa: N818 -- as people name theirs
    """An error that cannot be shown."""

    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


def of_client_2(data: Callable[[], Any]) -> Callable[[Client], Any]:
    """Data of which those of client 2 are others."""
    return lambda client: data() if client.index == 2 else points(client.index + 1)


class Files(list[Any]):
    """A data set whose third sample cannot be read."""

    def __getitem__(self, row: Any) -> Any:
        if row == 3:
            raise OSError("truncated")
        return super().__getitem__(row)


class Endless(Files):
    """A data set that does not know its length."""

    def __len__(self) -> int:
        sys.exit(4)


def samples() -> list[tuple[Any, Any]]:
    """The points of a client, one by one."""
    return list(zip(*points(3), strict=True))


@ENGINES
@pytest.mark.parametrize(
    ("train_data", "error"),
    [
        (broken_data, "is not finite; it is not sent"),
        (no_data, "Error: part-2.npz"),
        (of_client_2(lambda: sys.exit(3)), "SystemExit: 3"),
        (of_client_2(lambda: raising(KeyboardInterrupt())), "KeyboardInterrupt"),
        (of_client_2(lambda: raising(OwnError("odd"))), "OwnError: odd"),
        (of_client_2(lambda: raising(GeneratorExit())), "GeneratorExit"),
        (of_client_2(lambda: raising(Mute())), "Mute: <exception str() failed>"),
        (of_client_2(lambda: raising(OSError("x\udcff.png"))), "OSError: x\\udcff.png"),
        (of_client_2(lambda: None), "returned NoneType; expected (x, y), Subset"),
        (of_client_2(lambda: points(3, 0)), "client-2 returned no samples"),
        (of_client_2(list), "client-2 returned no samples"),
        (of_client_2(lambda: [1, 2, 3]), "a sample of the data set list is a int"),
        (of_client_2(lambda: (points(3)[0], [1.0])), "returned 8 inputs and 1 targets"),
        (of_client_2(lambda: Files(samples())), "OSError: truncated"),
        (of_client_2(lambda: Endless(samples())), "SystemExit: 4"),
    ],
)
def test_a_client_that_is_no_use_is_named_and_ends_nothing_else(
    tmp_path: Path, train_data: Any, error: str, engine: str
) -> None:
    workload = TOYS[engine](train_data=train_data)
    results = latecomer.run(patient(engine), workload, folder=tmp_path / "run")
    assert results.summary["versions"] > 20
    assert len(results.of(Failed)) == MOST_FAILURES
    [(name, told)] = results.summary["failed"].items()
    assert error in told
    assert name == "client-2"
    loss = loss_summary(results, timelines_of(results))
    assert loss.headline.endswith(f" 1 client failed: {name}.")
    assert not loss.nothing
    assert any(told in sentence for sentence in loss.sentences)


def as_dict(x: Any, y: Any) -> Any:
    return {"x": x}, y


ODD: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "another shape": (lambda x, y: (x[:, :5], y), "5"),
    "more dimensions": (lambda x, y: (x[:, :5, None], y), "1"),
    "a dict": (as_dict, "dict"),
    "a tuple": (lambda x, y: ((x, x), y), "tuple"),
    "words": (lambda x, y: (x.astype("U9"), y), "the data are words such as '"),
    "whole numbers": (lambda x, y: (x.astype(int), y), "dtype"),
    "words as targets": (lambda x, y: (x, y.astype("U9")), "the data are words such"),
    "another shape of targets": (lambda x, y: (x, np.stack([y, y, y], 1)), "3"),
    "rows in a dict": (lambda x, y: ({"a": {"b": x[:2]}}, y), "2 inputs and 8"),
    "a list of another shape": (lambda x, y: pairs(x[:, :5], y), "5"),
    "pairs of a number": (lambda x, y: [(1.0, 2.0)] * 8, ""),
}


def pairs(x: Any, y: Any) -> list[tuple[Any, Any]]:
    """A data set that is read sample by sample."""
    return list(zip(x, y, strict=True))


@pytest.mark.parametrize("place", [0, 1, 3])
@pytest.mark.parametrize("odd", ODD)
def test_data_of_another_form_are_the_failure_of_their_client_in_both_engines(
    tmp_path: Path, odd: str, place: int
) -> None:
    nn = pytest.importorskip("torch").nn

    def mean_square(output: Any, target: Any) -> Any:
        if output.shape != target.shape:
            raise ValueError(f"{tuple(output.shape)} and {tuple(target.shape)}")
        return nn.functional.mse_loss(output, target)

    def train_data(client: Client) -> Any:
        x, y = points(client.index + 1)
        return ODD[odd][0](x, y) if client.index == place else (x, y)

    ends = set()
    for kind in ("exact", "stacked"):
        workload = linear(train_data=train_data, loss=mean_square)
        folder = tmp_path / kind
        results = latecomer.run(patient(kind), workload, folder=folder)
        assert results.summary["versions"] > 20
        assert len(results.of(Failed)) == MOST_FAILURES
        [(name, told)] = results.summary["failed"].items()
        assert name == f"client-{place}"
        assert ODD[odd][1] in told
        ends.add(told)
    assert len(ends) == 1


def test_a_batch_that_cannot_be_stacked_is_the_failure_of_its_client(
    tmp_path: Path,
) -> None:
    def collate(items: list[Any]) -> Any:
        x, y = map(np.stack, zip(*items, strict=True))
        return x, y.mean() if (y == 99).any() else y

    def marked(client: Client) -> Any:
        x, y = points(client.index + 1)
        return pairs(x, np.full_like(y, 99.0) if client.index == 2 else y)

    workload = linear(
        train_data=marked,
        collate=collate,
        loss=lambda output, target: ((output - target) ** 2).mean(),
    )
    results = latecomer.run(patient("stacked"), workload, folder=tmp_path / "run")
    assert results.summary["versions"] > 20
    [(name, told)] = results.summary["failed"].items()
    assert name == "client-2"
    assert "no row for each of them (simulate.engine.kind: exact trains" in told


@pytest.mark.parametrize("unable", [0, 2])
def test_what_cannot_be_stacked_is_seen_though_the_first_data_cannot_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, unable: int
) -> None:
    caplog.set_level("INFO", "fedsim")

    def train_data(client: Client) -> Any:
        if client.index < unable:
            raise OSError("no disk")
        return pairs(*points(client.index + 1))

    def no_rows(items: list[Any]) -> Any:
        x, y = map(np.stack, zip(*items, strict=True))
        return x, np.float32(y.mean())

    workload = linear(
        train_data=train_data,
        collate=no_rows,
        test_data=None,
        loss=lambda output, target: ((output - target) ** 2).mean(),
    )
    results = latecomer.run(patient("stacked"), workload, folder=tmp_path / "run")
    assert any("are trained one by one: a batch" in line for line in caplog.messages)
    assert set(results.summary["failed"]) == {f"client-{n}" for n in range(unable)}


def raising(error: BaseException) -> Any:
    raise error


@ENGINES
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("no"), "ValueError: no"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (OwnError("odd"), "OwnError: odd"),
        (GeneratorExit(), "GeneratorExit"),
        (Mute(), "Mute: <exception str() failed>"),
    ],
)
def test_what_training_raises_ends_the_task_of_one_client(
    tmp_path: Path, error: BaseException, words: str, engine: str
) -> None:
    def marked(client: Client) -> tuple[Any, Any]:
        x, y = points(client.index + 1)
        return x, np.full_like(y, 99.0) if client.index == 2 else y

    def one_by_one(params: Any, x: Any, y: Any) -> Any:
        if (y == 99).any():
            raise error
        return gradient(params, x, y)

    def together(output: Any, target: Any) -> Any:
        if (target == 99).any():
            raise error
        return ((output - target) ** 2).mean()

    app = (
        toy(gradient=one_by_one, train_data=marked)
        if engine == "exact"
        else linear(loss=together, train_data=marked)
    )
    results = latecomer.run(patient(engine), app, folder=tmp_path / "run")
    assert len(results.of(Failed)) == MOST_FAILURES
    [(name, told)] = results.summary["failed"].items()
    assert name == "client-2"
    assert told.endswith(words)


@ENGINES
@pytest.mark.parametrize("clients", [1, 2, 8])
def test_a_mistake_in_what_all_share_is_told_once_at_the_start(
    tmp_path: Path, clients: int, engine: str
) -> None:
    calls = list[int]()

    def wrong(*given: Any) -> Any:
        calls.append(1)
        raise ValueError("no such class")

    app = toy(gradient=wrong) if engine == "exact" else linear(loss=wrong)
    settings = toys.settings(
        simulate={"engine": {"kind": engine}, "clients": clients},
        algorithm={"buffer": 1},
    )
    with pytest.raises(
        UserCodeError, match="cannot train: training raised Val"
    ) as told:
        latecomer.run(settings, app, folder=tmp_path / "run")
    named = [f"client-{n}" for n in range(clients) if f"client-{n}" in str(told.value)]
    assert len(named) == min(3, clients)
    assert len(calls) <= 9  # several ways to compute it are tried for each


def returns(result: Any) -> dict[str, Any]:
    """A training loop that returns this."""
    return {"gradient": None, "train": lambda *given: result}


W = np.zeros(toys.DIM)
Given: Any = Trained  # with anything


@pytest.mark.parametrize(
    ("functions", "words"),
    [
        (returns(None), "train returned a NoneType; expected Trained(params"),
        (returns({"w": W}), "train returned a dict of w; expected Trained(params"),
        (returns(Given({"v": W}, 1)), "what train returned: tensor 'w' is missing"),
        (returns(Given({"w": W[:2]}, 1)), "tensor 'w' should have shape [6], has"),
        (returns(Given({"w": ["a"] * 6}, 1)), "tensor 'w' has dtype <U1"),
        (returns(Given({}, 1)), "what train returned: tensor 'w' is missing"),
        (
            returns(Given(None, 1)),
            "what train returned: expected arrays by name, got NoneType",
        ),
        (returns(Given({"w": W}, 0)), "train returned 0 samples; expected 1 to"),
        (returns(Given({"w": W}, -1)), "train returned -1 samples; expected 1 to"),
        (
            returns(Given({"w": W}, None)),
            "samples that train returned is NoneType; expected",
        ),
        (returns(Given({"w": W}, 2**70)), "expected 1 to"),
        (
            returns(Given({"w": W}, 1, "low")),
            "the loss that train returned is str; expected one",
        ),
        (
            returns(Given({"w": W}, 1, state={"a": [1]})),
            "Trained(state=...): expected",
        ),
        (returns(Given({"w": W}, 1, metrics={"a": "b"})), "the metric 'a' is str"),
        (returns(Given({"w": W}, 1, metrics={1: 2})), "name is 1; expected text"),
        ({"gradient": lambda *given: None}, "gradient returned a NoneType; expected"),
        ({"gradient": lambda *given: 0.5}, "gradient returned a float; expected (loss"),
        (
            {"gradient": lambda *given: (0.5, {})},
            "what gradient returned: tensor 'w' is missing",
        ),
        ({"gradient": lambda *given: (0.5, {"w": W, "v": W})}, "tensor 'v' is not in"),
        (
            {"gradient": lambda *given: (None, {"w": W})},
            "the loss that gradient returned is NoneType",
        ),
        (
            {"gradient": lambda *given: (W, {"w": W})},
            "gradient returned is an array of shape (6,)",
        ),
    ],
)
def test_a_wrong_or_missing_result_is_told_in_a_sentence(
    tmp_path: Path, functions: dict[str, Any], words: str
) -> None:
    with pytest.raises(WorkloadError, match=re.escape(words)) as told:
        latecomer.run(toys.settings(), toy(**functions), folder=tmp_path / "run")
    assert not isinstance(told.value, UserCodeError)


def test_an_evaluation_that_fails_now_and_then_ends_nothing(tmp_path: Path) -> None:
    calls = list[int]()

    def now_and_then(params: Any, x: Any, y: Any) -> Any:
        calls.append(1)
        return sys.exit(5) if len(calls) % 3 == 2 else {"loss": 1.0}

    results = latecomer.run(
        toys.settings(), toy(evaluate=now_and_then), folder=tmp_path / "run"
    )
    assert results.summary["versions"] == 8
    assert results.central["version"][-1] == 8
    assert {r.error.splitlines()[-1] for r in results.of(Failed)} == {"SystemExit: 5"}


def test_an_evaluation_that_never_works_again_is_given_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    calls = list[int]()

    def once(params: Any, x: Any, y: Any) -> Any:
        calls.append(1)
        return {"loss": 1.0} if len(calls) == 1 else None

    app, words = toy(evaluate=once), "the run went on without: an evaluation returned"
    with pytest.raises(WorkloadError, match=words):
        latecomer.run(toys.settings(), app, folder=tmp_path / "r")
    assert Results(tmp_path / "r").summary["versions"] == 8
    assert len(calls) == 1 + MOST_FAILURES
    assert "nothing is evaluated any more" in caplog.text


def test_an_evaluation_that_has_never_worked_is_told_at_the_start(
    tmp_path: Path,
) -> None:
    app = toy(evaluate=lambda *given: None)
    with pytest.raises(WorkloadError, match="an evaluation returned NoneType"):
        latecomer.run(toys.settings(), app, folder=tmp_path / "run")


@ENGINES
def test_a_run_in_which_nothing_is_finite_ends(tmp_path: Path, engine: str) -> None:
    def nowhere(params: Any, x: Any, y: Any) -> Any:
        return 0.0, {"w": np.full_like(params["w"], np.inf)}

    settings = toys.settings(simulate={"engine": {"kind": engine}})
    with pytest.raises(UserCodeError, match=r"5 times in a row: the update .*finite"):
        latecomer.run(settings, toy(gradient=nowhere), folder=tmp_path / "run")


@ENGINES
@pytest.mark.parametrize(("rate", "fails"), [(1e25, False), (1e32, True)])
def test_an_update_counts_up_to_the_same_norm_in_both_engines(
    tmp_path: Path, engine: str, rate: float, fails: bool
) -> None:
    settings = toys.settings(
        algorithm={"client": {"kind": "local_sgd", "lr": rate, "steps": 1}},
        simulate={"engine": {"kind": engine}},
        stop={"versions": 1},
    )
    workload = TOYS[engine](test_data=None)
    if not fails:
        assert latecomer.run(settings, workload, folder=tmp_path / "run")
        return
    with pytest.raises(UserCodeError, match=r"norm of the update is above 1\.27e\+30"):
        latecomer.run(settings, workload, folder=tmp_path / "run")


def test_a_run_without_anything_to_measure_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    latecomer.run(toys.settings(), toy(test_data=None), folder=tmp_path / "run")
    assert "nothing is evaluated: the workload has no test_data=" in caplog.text


def some_bad_files(params: Any, data: Any, task: TrainingTask) -> Trained:
    """One step of descent without the first row, which cannot be read."""
    task.skip(1, "row-0.png: truncated")
    x, y = data
    loss, slopes = gradient(params, x[1:], y[1:])
    w_D = params["w"] - np.multiply(task.lr, slopes["w"])
    return Trained({"w": w_D}, samples=len(y) - 1, loss=loss)


def test_samples_that_are_left_out_are_told_by_client_with_the_reason(
    tmp_path: Path,
) -> None:
    app = toy(gradient=None, train=some_bad_files)
    results = latecomer.run(toys.settings(), app, folder=tmp_path / "run")
    updates = results.summary["updates"]["accepted"]
    assert sum(samples for samples, _, _ in results.skipped.values()) >= updates
    assert set(results.summary["skipped"]) == {f"client-{n}" for n in range(4)}
    assert set(results.summary["skipped"].values()) == {"row-0.png: truncated"}
    loss = loss_summary(results, timelines_of(results))
    assert loss.nothing
    samples, tasks, _ = results.skipped["client-0"]
    assert samples == tasks > 1  # the same row, in each of them
    sentence = f"client-0 left out {tasks} samples in {tasks} tasks: row-0.png"
    assert any(each.startswith(sentence) for each in loss.sentences)


@pytest.mark.parametrize(
    ("samples", "why", "words"),
    [
        (0, "why", r"skip\(0, ...\): expected a whole number, 1 to"),
        (1.5, "why", "expected a whole number"),
        ("one", "why", "expected a whole number"),
        (10**30, "why", "expected a whole number"),  # no message can hold it
        (1, "", "expected a reason"),
        (1, " \n", "expected a reason"),
        (1, None, "expected a reason"),
    ],
)
def test_skipping_wants_a_number_and_a_reason(
    samples: Any, why: Any, words: str
) -> None:
    with pytest.raises(WorkloadError, match=words):
        TrainingTask(seed=0, steps=1, lr=0.1, batch=1).skip(samples, why)


def test_skipping_takes_what_counting_and_raising_give() -> None:
    task = TrainingTask(seed=0, steps=1, lr=0.1, batch=1)
    task.skip(np.array([True, False, True]).sum(), ValueError("no\nimage"))
    assert task.skipped == [(2, "no\\nimage")]
    assert type(task.skipped[0][0]) is int


@ENGINES
def test_a_target_that_nobody_measures_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, engine: str
) -> None:
    app = toy() if engine == "exact" else linear()
    settings = toys.settings(
        simulate={"engine": {"kind": engine}}, stop={"target": {"acc": 0.9}}
    )
    latecomer.run(settings, app, folder=tmp_path / "run")
    told = [line for line in caplog.messages if "stop.target" in line]
    assert told == [
        "stop.target: the evaluator reports no number for acc, but for loss"
    ]


@ENGINES
def test_data_that_nobody_has_end_a_large_simulation_at_its_start(
    tmp_path: Path, engine: str
) -> None:
    def absent(client: Client) -> Any:
        raise FileNotFoundError("no such folder")

    settings = toys.settings(
        simulate={"engine": {"kind": engine}, "clients": 300},
        algorithm={"buffer": 10},
    )
    with pytest.raises(UserCodeError, match=r"cannot train: .* no such folder") as told:
        latecomer.run(
            settings, TOYS[engine](train_data=absent), folder=tmp_path / "run"
        )
    assert len(str(told.value).partition(" cannot")[0].split(", ")) == MANY
    assert len(Results(tmp_path / "run").of(Failed)) < MANY
