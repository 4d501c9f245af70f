"""A Flower app as a workload, in simulations."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import latecomer
from fedcore.errors import LatecomerError
from fedcore.training import initial_model
from fedflower.app import load_app
from fedflower.app.federation import describe
from fedrun.app import code_hash
from fedrun.evaluation import evaluate_files
from fedrun.files import save_model
from fedview.results import Results
from tests.fedflower.app.apps import CLIENT, PYPROJECT, SERVER, serves, tiny, trains

pytestmark = pytest.mark.needs("flwr")


def simulated(path: Path, **changes: Any) -> Results:
    settings = {
        "app": f"flower:{path}",
        "algorithm": {"kind": "fed_avg", "buffer": 4},
        "evaluate": {"every_versions": 1, "clients": True},
        "stop": {"versions": 3},
        "simulate": {"clients": 4},
        "server": {"journal": str(path.parent / "run")},
    }
    return latecomer.run({**settings, **changes})


def last(results: Results) -> Any:
    return results.model()["w"]


def by_hand(start: Any, targets: Any, rounds: int, lr: float = 0.5) -> Any:
    """Federated averaging of what the tiny app does, in Python."""
    w = np.asarray(start, np.float32)
    for _ in range(rounds):
        w = np.mean([w + lr * (target - w) for target in targets], axis=0)
    return w


def test_rounds_are_those_of_federated_averaging(tmp_path: Path) -> None:
    results = simulated(tiny(tmp_path))
    workload = load_app(f"flower:{tmp_path / 'app'}")
    start = workload.app.first.arrays["w"].numpy()
    expected = by_hand(start, [1, 2, 3, 4], 3)
    np.testing.assert_allclose(last(results), expected, rtol=1e-5)


def test_other_settings_of_the_app_take_part(tmp_path: Path) -> None:
    path = tiny(tmp_path)
    results = simulated(path, app=f"flower:{path}?lr=1.0")
    np.testing.assert_allclose(last(results), np.full(3, 2.5), rtol=1e-5)


def test_metrics_of_clients_stand_in_the_results(tmp_path: Path) -> None:
    results = simulated(tiny(tmp_path))
    updates, seen = results.updates, results.federated
    assert updates["metrics.train_loss"] == pytest.approx(updates["loss"])
    assert set(updates["samples"]) == {10}
    assert seen["version"] == [0, 1, 2, 3]
    assert seen["size_n"] == [20, 20, 20, 20]
    assert len(set(seen["size"])) == 4


def test_num_examples_are_the_weights(tmp_path: Path) -> None:
    weights = trains(
        """
        part = context.node_config["partition-id"]
        return reply(msg, {"w": 0 * w + part}, {"num-examples": 1 + part})
        """
    )
    results = simulated(
        tiny(tmp_path, weights), stop={"versions": 1}, evaluate={"clients": False}
    )
    np.testing.assert_allclose(last(results), np.full(3, (0 + 2 + 6 + 12) / 10), 1e-6)


def test_a_config_that_one_client_changes_is_whole_for_the_next(tmp_path: Path) -> None:
    growing = trains(
        """
        parts = msg.content["config"]["parts"]
        parts.append(0)
        return reply(msg, {"w": w}, {"parts": len(parts), "num-examples": 1})
        """
    )
    server = SERVER.replace('ConfigRecord({"lr":', 'ConfigRecord({"parts": [1], "lr":')
    path = tiny(tmp_path, growing, server)
    updates = simulated(path, evaluate={"clients": False}).updates
    assert set(updates["metrics.parts"]) == {2}


@pytest.mark.parametrize(
    ("settings", "buffer"),
    [
        ("", 4),
        ("fraction_train=0.5", 2),
        ("fraction_train=0.25", 2),
        ("fraction_train=0.25, min_train_nodes=3", 3),
        ("fraction_train=0.25, min_train_nodes=1", 1),
        ("fraction_train=0.25, min_train_nodes=9, min_available_nodes=9", 4),
    ],
)
def test_as_many_clients_train_in_a_round_as_with_flower(
    settings: str, buffer: int, tmp_path: Path
) -> None:
    server = SERVER.replace("FedAvg()", f"FedAvg({settings})")
    app = load_app(f"flower:{tiny(tmp_path, server=server)}").app
    assert describe(app, "flower:app")["algorithm"]["buffer"] == buffer


STATEFUL = trains(
    """
    state = context.state
    seen = state["mine"]["seen"] if "mine" in state else 0
    state["mine"] = ConfigRecord({"seen": seen + 1})
    state["layer"] = ArrayRecord({"a": Array(w)})
    metrics = {"seen": seen, "round": msg.content["config"]["server-round"]}
    return reply(msg, {"w": w + 1}, {**metrics, "num-examples": 10})
    """
) + CLIENT[CLIENT.index("@app.evaluate") :].replace(
    "float(abs(w).max())",
    'context.state["mine"]["seen"] if "mine" in context.state else 0',
)


def test_a_clients_state_lives_from_task_to_task(tmp_path: Path) -> None:
    results = simulated(tiny(tmp_path, STATEFUL))
    updates = results.updates
    assert updates["metrics.seen"] == updates["base"]
    assert updates["metrics.round"] == [version + 1 for version in updates["base"]]
    assert results.federated["size"] == [0, 1, 2, 3]  # evaluations see it as well


def test_whole_numbers_stay_with_the_client(tmp_path: Path) -> None:
    counting = trains(
        """
        steps = msg.content["arrays"]["steps"].numpy() + 2
        metrics = {"steps": int(steps), "num-examples": 1}
        return reply(msg, {"w": w, "steps": steps}, metrics)
        """
    )
    server = SERVER.replace('{"w":', '{"steps": Array(np.array(5)), "w":')
    results = simulated(tiny(tmp_path, counting, server), evaluate={"clients": False})
    updates = results.updates
    assert updates["metrics.steps"] == [7 + 2 * version for version in updates["base"]]
    assert [t.name for t in load_app(f"flower:{tmp_path / 'app'}").flat().spec.tensors]


def test_a_central_evaluation_is_the_evaluators(tmp_path: Path) -> None:
    server = serves(
        """
        def evaluate(server_round, arrays):
            from flwr.app import MetricRecord
            return MetricRecord({"mean": float(arrays["w"].numpy().mean())})
        arrays = ArrayRecord({"w": Array(np.zeros(3))})
        FedAvg().start(grid, arrays, train_config=ConfigRecord({"lr": 0.5}),
                       evaluate_fn=evaluate)
        """
    )
    results = simulated(tiny(tmp_path, server=server))
    expected = [float(by_hand(np.zeros(3), [1, 2, 3, 4], k)[0]) for k in range(4)]
    assert results.central["mean"] == pytest.approx(expected)


ASKED = CLIENT.replace("float(abs(w).max())", 'msg.content["config"]["server-round"]')
TELLS = serves(
    """
    def evaluate(server_round, arrays):
        from flwr.app import MetricRecord
        return MetricRecord({"round": server_round})
    arrays = ArrayRecord({"w": Array(np.zeros(3))})
    FedAvg().start(grid, arrays, train_config=ConfigRecord({"lr": 0.5}),
                   evaluate_fn=evaluate)
    """
)


@pytest.mark.parametrize("algorithm", ["fed_avg", "fed_buff"])
def test_an_evaluation_is_told_the_version_that_it_evaluates(
    tmp_path: Path, algorithm: str
) -> None:
    results = simulated(
        tiny(tmp_path, ASKED, TELLS),
        algorithm={"kind": algorithm, "buffer": 4 if algorithm == "fed_avg" else 2},
        stop={"versions": 5},
        simulate={"clients": 4, "speed": {"kind": "log_normal", "sigma": 1.0}},
    )
    assert max(results.federated["version"]) == 5
    assert results.federated["size"] == results.federated["version"]
    assert results.central["round"] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("version", "told"), [("7", 7), ("", 0), ("v1.2", 0), ("9" * 5000, 0)]
)
def test_a_model_file_tells_an_evaluation_its_version(
    tmp_path: Path, version: str, told: int
) -> None:
    workload = load_app(f"flower:{tiny(tmp_path, server=TELLS)}")
    model, path = workload.flat(), tmp_path / "model.safetensors"
    save_model(path, model.spec, initial_model(model, 0), version=version)
    [found] = evaluate_files(workload, [path])
    assert found.metrics == {"round": told}


def test_the_same_seed_draws_the_same_version_0(tmp_path: Path) -> None:
    path = tiny(tmp_path)
    first = simulated(path, seed=1, stop={"versions": 1})
    other = simulated(path, seed=2, stop={"versions": 1})
    again = simulated(path, seed=1, stop={"versions": 1})
    assert np.array_equal(last(first), last(again))
    assert not np.array_equal(last(first), last(other))


def test_a_lifespan_and_mods_run_around_each_message(tmp_path: Path) -> None:
    log = tmp_path / "log"
    around = f"""
    def note(word):
        with open({str(log)!r}, "a") as file:
            file.write(word + " ")

    def mod(msg, context, call_next):
        note("mod")
        return call_next(msg, context)

    app = ClientApp(mods=[mod])

    @app.lifespan()
    def lifespan(context):
        note("begin")
        yield
        note("end")
    """
    from textwrap import dedent

    body = trains(
        """
        note("train")
        return reply(msg, {"w": w}, {"num-examples": 1})
        """
    )
    path = tiny(tmp_path, dedent(around) + body)
    settings = {"clients": 1}
    simulated(
        path,
        simulate=settings,
        algorithm={"kind": "fed_avg", "buffer": 1},
        evaluate={"clients": False},
        stop={"versions": 1},
    )
    assert log.read_text().split() == ["begin", "mod", "train", "end"]


def test_two_apps_whose_packages_have_one_name(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one = tiny(tmp_path / "a")
    two = tiny(tmp_path / "b", pyproject=PYPROJECT.replace("lr = 0.5", "lr = 1.0"))
    assert not np.array_equal(last(simulated(one)), last(simulated(two)))
    assert code_hash(f"flower:{one}") != code_hash(f"flower:{two}")


# ------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('raise RuntimeError("no disk")', "RuntimeError: no disk"),
        (
            'return reply(msg, {"w": w[:2]}, {"num-examples": 1})',
            r"train returned: array 'w' should have shape \[3\], has \[2\]",
        ),
        (
            'return reply(msg, {"v": w}, {"num-examples": 1})',
            "train returned: array 'v' is not in the federation's model",
        ),
        (
            'return reply(msg, {"w": 0 * w + np.nan}, {"num-examples": 1})',
            "tensor 'w'|'w'.*finite|not finite",
        ),
        ('return reply(msg, {"w": w}, {"loss": 1.0})', "returned no num-examples"),
        (
            'return reply(msg, {"w": w}, {"num-examples": 0})',
            "returned num-examples 0; expected 1 to",
        ),
        (
            'return reply(msg, None, {"num-examples": 1})',
            "train returned no arrays; expected one ArrayRecord",
        ),
        ("return None", "train returned NoneType; expected a Message"),
        (
            "from flwr.app import Error\n"
            'return Message(Error(1, "the mod refused"), reply_to=msg)',
            "train replied an error: the mod refused",
        ),
        (
            'found = reply(msg, {"w": w}, {"num-examples": 1})\n'
            'found.content["more"] = ArrayRecord()\nreturn found',
            r"train returned 2 ArrayRecords \(.*\); expected one",
        ),
    ],
)
def test_a_reply_that_is_no_update_is_refused_in_a_sentence(
    tmp_path: Path, body: str, words: str
) -> None:
    with pytest.raises(LatecomerError, match=words):
        simulated(tiny(tmp_path, trains(body)), evaluate={"clients": False})


def test_a_client_app_without_training_is_refused(tmp_path: Path) -> None:
    evaluates = CLIENT[CLIENT.index("@app.evaluate") :]
    path = tiny(tmp_path, "\n\n" + evaluates)
    with pytest.raises(
        LatecomerError, match=r"no function for train; .*@app\.train\(\)"
    ):
        load_app(f"flower:{path}")


def test_a_client_app_without_evaluation_cannot_evaluate(tmp_path: Path) -> None:
    path = tiny(tmp_path, CLIENT[: CLIENT.index("@app.evaluate")])
    with pytest.raises(LatecomerError, match="needs a workload with valid_data="):
        simulated(path)


def test_what_is_replaced_must_exist(tmp_path: Path) -> None:
    path = tiny(tmp_path)
    with pytest.raises(LatecomerError, match=r"'lrr' is not in \[tool\.flwr\.app\.con"):
        load_app(f"flower:{path}?lrr=0.5")


@pytest.mark.parametrize(
    ("client", "words"),
    [
        ("import nothing_like_it", "No module named 'nothing_like_it'"),
        ("raise ValueError('broken')", "cannot be imported: ValueError: broken"),
        ("app = 3", "tiny.client_app:app is no ClientApp"),
        ("del app", "tiny.client_app:app does not exist"),
    ],
)
def test_a_client_app_that_is_not_there_is_refused(
    tmp_path: Path, client: str, words: str
) -> None:
    with pytest.raises(LatecomerError, match=words):
        load_app(f"flower:{tiny(tmp_path, client)}")


def test_metrics_travel_in_the_journal_with_their_update(tmp_path: Path) -> None:
    results = simulated(tiny(tmp_path))
    from fedcore.coordinator.events import Decided

    decided = [record for record in results.records if isinstance(record, Decided)]
    losses = [json.dumps(dict(record.metrics or {})) for record in decided]
    assert len(losses) == 12
    assert all("train_loss" in each for each in losses)
