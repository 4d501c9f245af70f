"""The contenders compute the same FedAvg, and the races are told in full."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest
import torch
from rich.console import Console

from benchmarks.basis import RESTS_ON
from benchmarks.series import runs
from benchmarks.simulation import __main__ as command
from benchmarks.simulation import environments, gradients, tasks
from benchmarks.simulation.environments import (
    ENVIRONMENTS,
    Environment,
    absent,
    install,
)
from benchmarks.simulation.goals import goals
from benchmarks.simulation.peers.batched_numpy import BatchedNumpy
from benchmarks.simulation.peers.batched_torch import BatchedTorch
from benchmarks.simulation.peers.networks import client_tensors, network, taken
from benchmarks.simulation.peers.problem import (
    Integers,
    Problem,
    Weights,
    draw_cohort,
    load,
    shuffles,
)
from benchmarks.simulation.peers.stacking import Stack, by_size, steps
from benchmarks.simulation.peers.torch_loop import train_round
from benchmarks.simulation.peers.torch_vmap import TorchVmap
from benchmarks.simulation.problems import PROBLEMS
from benchmarks.simulation.race import Outcome, RaceError, race
from benchmarks.simulation.report import Row, Rows, show, to_json
from fedtorch.compiled import loop

STACKS: dict[str, Callable[[Problem], Stack]] = {
    "NumPy": BatchedNumpy,
    "torch": BatchedTorch,
    "vmap": TorchVmap,
}
ROUNDS = 3


@pytest.fixture(scope="module")
def problem() -> Problem:
    """100 clients of 2 to 36 samples."""
    return PROBLEMS["digits, 100"](Path())


def one_by_one(problem: Problem, rng: np.random.Generator) -> Weights:
    """The model of the loop after some rounds."""
    module, data = network(problem), client_tensors(problem)
    for _ in range(ROUNDS):
        cohort, orders = drawn(problem, rng)
        train_round(problem, data, module, cohort, orders)
    return taken(module)


def together(stack: Stack, problem: Problem, rng: np.random.Generator) -> Weights:
    """The same of a stack."""
    for _ in range(ROUNDS):
        stack.train_round(*drawn(problem, rng))
    return stack.weights()


def drawn(problem: Problem, rng: np.random.Generator) -> tuple[Integers, Integers]:
    """A cohort and its shuffles."""
    cohort = by_size(problem, draw_cohort(problem, rng))
    return cohort, shuffles(problem.sizes[cohort], rng)


@pytest.mark.parametrize("name", STACKS)
@pytest.mark.parametrize("seed", range(5))
def test_a_stack_computes_what_the_loop_computes(
    name: str, seed: int, problem: Problem
) -> None:
    stack = STACKS[name](problem)
    expected = one_by_one(problem, np.random.default_rng(seed))
    found = together(stack, problem, np.random.default_rng(seed))
    for mine, theirs, first in zip(found, expected, problem.initial, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-6)
        assert np.abs(theirs - first).max() > 1e-3  # something was learnt


@pytest.mark.parametrize("name", STACKS)
def test_another_shuffle_gives_another_model(name: str, problem: Problem) -> None:
    cohort, orders = drawn(problem, np.random.default_rng(0))
    models = []
    for each in (orders, shuffles(problem.sizes[cohort], np.random.default_rng(1))):
        stack = STACKS[name](problem)
        stack.train_round(cohort, each)
        models.append(np.concatenate([w.reshape(-1) for w in stack.weights()]))
    assert np.abs(models[0] - models[1]).max() > 1e-5


def test_each_sample_is_in_one_batch_and_padding_weighs_nothing(
    problem: Problem,
) -> None:
    cohort, orders = drawn(problem, np.random.default_rng(0))
    seen: list[list[int]] = [[] for _ in cohort]
    for step in steps(problem, cohort, orders):
        np.testing.assert_allclose(step.weights.sum(axis=1), 1, rtol=1e-6)
        for place, (rows, weights) in enumerate(
            zip(step.rows, step.weights, strict=True)
        ):
            seen[place] += rows[weights > 0].tolist()
    for client, rows in zip(cohort, seen, strict=True):
        assert sorted(rows) == sorted(problem.rows_of(client).tolist())


def test_a_problem_survives_its_file(tmp_path: Path, problem: Problem) -> None:
    problem.save(tmp_path / "problem.npz")
    found = load(tmp_path / "problem.npz")
    for mine, theirs in zip(found, problem, strict=True):
        np.testing.assert_equal(mine, theirs)


@pytest.mark.parametrize("clients", [1_000, 10_000])
def test_clients_of_20_samples_are_skewed_by_label(clients: int) -> None:
    problem = PROBLEMS[f"digits, {clients:,}"](Path())
    assert (problem.sizes == 20).all()
    assert problem.clients == clients
    labels = problem.y[problem.rows].reshape(clients, 20)
    most = [np.bincount(row).max() for row in labels[:200]]
    assert np.mean(most) > 9  # of 20; 4.5 without skew
    assert np.bincount(labels.reshape(-1)).min() > 20 * clients / 20


# --------------------------------------------------------------------------- races


def contender(module: str) -> tasks.Contender:
    """A program in our own environment, for a few rounds."""
    name = f"benchmarks.simulation.{module}"
    return tasks.Contender(module=name, problem="digits, 100", rounds=4)


@pytest.mark.processes
@pytest.mark.timeout(300)
@pytest.mark.parametrize("module", ["peers.torch_loop", "peers.torch_vmap", "ours"])
def test_a_race_measures_time_memory_and_the_model(
    module: str, tmp_path: Path, problem: Problem
) -> None:
    problem.save(tmp_path / "digits.npz")
    outcome = race(contender(module), tmp_path / "digits.npz", tmp_path, 4, 200)
    assert outcome.rate > 0
    assert 0 < outcome.start < 200
    assert outcome.megabytes > 50
    assert outcome.torch == torch.__version__
    shapes = [w.shape for w in outcome.weights]
    assert shapes == [w.shape for w in problem.initial]
    assert all(
        np.abs(w - first).max() > 1e-4
        for w, first in zip(outcome.weights, problem.initial, strict=True)
    )


@pytest.mark.heavy
@pytest.mark.needs("flwr", "ray")
@pytest.mark.processes
@pytest.mark.timeout(600)
def test_flower_and_we_learn_the_same_model(tmp_path: Path, problem: Problem) -> None:
    """All clients take part in each round, with all their samples in one batch."""
    most = int(problem.sizes.max())
    whole = problem._replace(cohort=problem.clients, batch=most, epochs=1)
    whole.save(tmp_path / "digits.npz")
    ours, flower = (
        race(contender(module), tmp_path / "digits.npz", tmp_path, 4, 280).weights
        for module in ("ours", "peers.flower")
    )
    for mine, theirs, first in zip(ours, flower, problem.initial, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-6)
        assert np.abs(theirs - first).max() > 1e-3  # something was learnt


@pytest.mark.processes
def test_a_program_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(RaceError, match=r"No module named .*nothing"):
        race(contender("peers.nothing"), tmp_path / "p.npz", tmp_path, 1, 60)


@pytest.mark.processes
def test_a_program_that_takes_too_long_is_ended(
    tmp_path: Path, problem: Problem
) -> None:
    problem.save(tmp_path / "digits.npz")
    with pytest.raises(RaceError, match=r"not done within 0\.2 s"):
        race(contender("peers.torch_loop"), tmp_path / "digits.npz", tmp_path, 1, 0.2)


@pytest.mark.processes
@pytest.mark.timeout(300)
def test_the_command_names_peers_that_are_absent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "RESULTS", tmp_path / "simulation.json")
    words = ["A", "--only", "NumPy", "flwr", "--repetitions", "1", "--save"]
    assert command.main([*words, "--environments", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "flwr 1.41.0: not installed: run `install`" in shown
    kept = json.loads((tmp_path / "simulation.json").read_text())["tasks"]["A"]
    assert kept["rows"][tasks.FLOWER] == {"absent": "not installed: run `install`"}
    assert kept["rows"][tasks.NUMPY]["updates/s"]["median"] > 0
    assert kept["rows"][tasks.NUMPY]["accuracy"]["median"] > 0.6
    command.save({"A": {"title": "a second run"}})
    first, second = runs(json.loads(command.RESULTS.read_text())["tasks"]["A"])
    assert first == {k: value for k, value in kept.items() if k != RESTS_ON}
    assert second["title"] == "a second run"


def test_a_task_that_does_not_exist_is_answered_with_those_that_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        command.main(["C"])
    assert "no task 'C'; there are A, B, fashion" in capsys.readouterr().err


# ------------------------------------------------------------------ environments


def test_an_environment_without_its_python_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Environment(("thing==1",), least=(9, 1), below=(9, 3))
    monkeypatch.setitem(environments.ENVIRONMENTS, "old", old)
    reason = "needs Python 9.1 or later, below 9.3; name one with --python"
    assert install(tmp_path, "old", []) == reason
    assert absent(tmp_path, "old") == f"does not install: {reason}"


def test_an_environment_with_other_pins_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(environments.ENVIRONMENTS, "thing", Environment(("thing==2",)))
    (tmp_path / "thing.installed").write_text("thing==1")
    assert "other versions" in absent(tmp_path, "thing")
    (tmp_path / "thing.installed").write_text("thing==2")
    assert absent(tmp_path, "thing") == ""


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_torch_has_no_cuda_libraries_in_any_environment(name: str) -> None:
    found = [r for r in ENVIRONMENTS[name].requirements if r.startswith("torch")]
    assert all(requirement.endswith("+cpu") for requirement in found)


def test_a_package_that_asks_for_another_python_is_installed_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[list[str]] = []

    def call(command: list[str], **_: object) -> CompletedProcess[str]:
        called.append(command)
        return CompletedProcess(command, 0, "3 11", "")

    monkeypatch.setattr("benchmarks.simulation.environments.subprocess.run", call)
    assert install(tmp_path, "blazefl", []) == ""
    others, alone = called[-2:]
    first, *rest = ENVIRONMENTS["blazefl"].requirements
    assert first not in others
    assert others[-len(rest) :] == rest
    assert alone[-3:] == ["--no-deps", "--ignore-requires-python", first]


# ------------------------------------------------------------------------ tables


def row(rate: float, start: float = 1.0, megabytes: float = 100.0) -> Row:
    """One run, as if it had been measured."""
    return Row([Outcome(rate, start, megabytes, [], "2.13.0+cu130")], [0.5])


def test_goals_are_judged_by_ratios() -> None:
    rows: Rows = {
        tasks.OURS: row(12_000),
        tasks.PFL: row(1_000),
        tasks.FLOWER: row(100),
        tasks.BLAZEFL: "not installed",
    }
    met = [target.met for target in goals("A", rows)]
    assert met == [True, True, False, True]  # 12 × pfl, but only 120 × Flower


def test_goals_need_our_own_row() -> None:
    assert goals("A", {tasks.OURS: "failed", tasks.PFL: row(1)}) == []


def test_a_larger_population_may_cost_a_little_more() -> None:
    small, middle, large = tasks.TASKS["population"].contenders
    rows: Rows = {small: row(1150), middle: row(1), large: row(1000)}
    assert [target.met for target in goals("population", rows)] == [True, True]
    assert goals("population", {small: row(1)}) == []


def test_a_table_says_who_is_absent_and_who_carries_cuda() -> None:
    rows: Rows = {"we": row(10), "they": row(4), "nobody": "does not install: why"}
    console = Console(record=True, width=150)
    show(console, "title", rows)
    shown = console.export_text()
    assert "2.5" in shown
    assert "nobody: does not install: why" in shown
    assert "they has torch 2.13.0+cu130: CUDA libraries" in shown
    json.dumps(to_json(rows), allow_nan=False)


def test_every_contender_has_a_program_a_problem_and_an_environment() -> None:
    folder = Path(command.__file__).parent
    for task in tasks.TASKS.values():
        for each in task.contenders.values():
            path = each.module.removeprefix("benchmarks.simulation.").replace(".", "/")
            assert (folder / f"{path}.py").is_file()
            assert each.problem in PROBLEMS
            assert each.environment in {"", *environments.ENVIRONMENTS}
            assert each.warm < each.rounds
            assert (each.check or task.check) <= each.rounds


def test_the_times_of_gradients_are_saved_by_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gradients, "RESULTS", tmp_path / "gradients.json")
    monkeypatch.setattr(gradients, "TASKS", gradients.TASKS[:1])
    monkeypatch.setattr(gradients, "LARGE", 64)
    assert gradients.main(["--rounds", "2", "--save"]) == 0
    assert "mlp 64-32-10" in capsys.readouterr().out
    (found,) = json.loads(gradients.RESULTS.read_text()).values()
    contenders = {"stacked", "flat loop", "plain loop", "bare torch.bmm", "bare numpy"}
    if loop.available:
        contenders.add("compiled")
    assert set(found["µs"]) == contenders
    assert all(len(each["values"]) == 2 for each in found["µs"].values())
