"""Our recipes as a strategy of Flower, on a virtual clock."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcore.coordinator.events import (
    Decided,
    Enrolled,
    Evaluated,
    Failed,
    Lost,
    Stepped,
)
from fedcore.errors import ConfigError, JournalError, LatecomerError, ModelError
from fedcore.protocol import Verdict
from fedrun.journal import Journal
from fedrun.journal.verification import verify
from fedrun.run import open_run

pytest.importorskip("flwr.app")
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from benchmarks.flower.virtual_grid import (
    VirtualGrid,
    VirtualTime,
    jitter,
    size,
)
from fedflower.strategy import Latecomer
from tests.fedflower.strategy.app import (
    CONFIG,
    NODES,
    client_app,
    evaluate_fn,
    example,
    initial_arrays,
)

pytestmark = pytest.mark.needs("flwr")
PLAIN: Any = (None,)  # no mods
EXACT = {"uplink": {"kind": "identity"}, "downlink": {"kind": "identity"}}


def grid_of(*mods: Any, **given: Any) -> VirtualGrid:
    given.setdefault("delay", jitter(0))
    given.setdefault("config", CONFIG)
    return VirtualGrid(client_app(*mods), VirtualTime(), list(NODES), **given)


def started(
    grid: VirtualGrid, journal: Path | None, versions: int = 3, **settings: Any
) -> Any:
    """Runs a strategy to its end, on the grid's clock."""
    more = {
        name: settings.pop(name)
        for name in ("evaluate_fn", "timeout")
        if name in settings
    }
    settings.setdefault("evaluate_nodes", False)
    strategy = Latecomer(journal=journal, **settings)
    strategy._clock = lambda start: grid.clock
    return strategy.start(grid, initial_arrays(), versions, **more)


def records(run: Path) -> list[Any]:
    journal = Journal.open(run, read_only=True)
    try:
        return [entry.record for entry in journal.store.entries(payloads=False)]
    finally:
        journal.close()


def of(run: Path, kind: type) -> list[Any]:
    return [record for record in records(run) if isinstance(record, kind)]


def accepted(run: Path) -> list[Decided]:
    return [r for r in of(run, Decided) if r.verdict is Verdict.ACCEPTED]


def test_a_run_makes_its_versions_and_flowers_result(tmp_path: Path) -> None:
    grid = grid_of()
    result = started(
        grid,
        tmp_path / "run",
        buffer=4,
        evaluate_nodes=True,
        evaluate_fn=evaluate_fn(),
    )
    assert [r.version for r in of(tmp_path / "run", Stepped)] == [1, 2, 3]
    assert [*result.train_metrics_clientapp] == [1, 2, 3]
    assert [*result.evaluate_metrics_serverapp] == [0, 1, 2, 3]
    assert set(result.evaluate_metrics_clientapp) <= {0, 1, 2, 3}
    losses = [m["loss"] for m in result.evaluate_metrics_serverapp.values()]
    assert losses[-1] < losses[0]
    assert "train_loss" in result.train_metrics_clientapp[3]
    assert list(result.arrays) == list(initial_arrays())


def test_an_evaluation_is_told_the_version_and_an_update_the_next_one(
    tmp_path: Path,
) -> None:
    told: dict[int, list[tuple[str, Any, str]]] = {node: [] for node in NODES}

    def note(message: Message, context: Any, call_next: Any) -> Message:
        metadata, config = message.metadata, message.content["config"]
        round_ = config["server-round"]
        told[context.node_id].append((metadata.message_type, round_, metadata.group_id))
        return call_next(message, context)

    started(grid_of(note), tmp_path / "run", buffer=4, evaluate_nodes=True)
    assert all(
        str(round_) == group for each in told.values() for _, round_, group in each
    )
    for node in NODES:
        kinds = [kind for kind, _, _ in told[node]]
        assert told[node][0] == ("evaluate", 0, "0")
        for place, kind in enumerate(kinds[:-1]):
            if (kind, kinds[place + 1]) == ("evaluate", "train"):
                assert told[node][place + 1][1] == told[node][place][1] + 1


def test_an_app_without_the_mod_takes_part_uncompressed(tmp_path: Path) -> None:
    grid, with_mod = grid_of(*PLAIN), grid_of()
    started(grid, tmp_path / "plain", buffer=4)
    started(with_mod, tmp_path / "mod", buffer=4)
    whole = size(RecordDict({"arrays": initial_arrays()}))
    assert grid.got_bytes / len(of(tmp_path / "plain", Decided)) >= whole
    assert with_mod.got_bytes / len(of(tmp_path / "mod", Decided)) < whole / 20
    assert len(accepted(tmp_path / "plain")) == 12


def test_nobody_waits_for_the_slowest(tmp_path: Path) -> None:
    def delay(node: int, nth: int) -> float:
        return 100.0 if node == NODES[0] else 1.0

    grid = grid_of(delay=delay)
    begun = grid.clock.now()
    started(grid, tmp_path / "run", versions=8, buffer=3)
    assert grid.clock.now() - begun < 30
    waiting = grid_of(delay=delay)
    begun = waiting.clock.now()
    started(waiting, tmp_path / "barrier", versions=2, kind="fed_avg", buffer=4)
    assert waiting.clock.now() - begun >= 200


def test_a_version_is_the_mean_of_fed_avg(tmp_path: Path) -> None:
    grid = grid_of(*PLAIN)
    result = started(grid, tmp_path / "run", versions=1, kind="fed_avg", buffer=4)
    app, start = client_app(*PLAIN), initial_arrays()
    check = VirtualGrid(app, VirtualTime(), list(NODES), jitter(0), config=CONFIG)
    replies = []
    for node in NODES:
        content = RecordDict({"arrays": start})
        from flwr.app import ConfigRecord

        content["config"] = ConfigRecord({"server-round": 1})
        message = Message(content, dst_node_id=node, message_type="train")
        replies.append(check._call(node, message).content)
    total = sum(reply["metrics"]["num-examples"] for reply in replies)
    for name in start:
        mean = sum(
            reply["arrays"][name].numpy() * (reply["metrics"]["num-examples"] / total)
            for reply in replies
        )
        assert np.allclose(result.arrays[name].numpy(), mean, atol=1e-6)


def test_replies_that_come_twice_count_once(tmp_path: Path) -> None:
    for name, mods in (("mod", ()), ("plain", PLAIN)):
        grid = grid_of(*mods, fate=lambda node, nth: "twice")
        started(grid, tmp_path / name, buffer=4)
        seqs = [(r.cid, r.seq) for r in of(tmp_path / name, Decided)]
        assert len(seqs) == len(set(seqs))
        assert verified(tmp_path / name)


def verified(run: Path) -> bool:
    journal = Journal.open(run, read_only=True)
    try:
        return verify(journal) is not None
    finally:
        journal.close()


def test_a_node_that_never_replies_is_lost_and_the_others_go_on(tmp_path: Path) -> None:
    def fate(node: int, nth: int) -> Any:
        return "lost" if node == NODES[1] else "fine"

    grid = grid_of(fate=fate)
    started(grid, tmp_path / "run", versions=4, buffer=3)
    names = {r.cid: r.name for r in of(tmp_path / "run", Enrolled)}
    who = {names[r.cid] for r in accepted(tmp_path / "run")}
    assert who == {f"node-{n}" for n in NODES if n != NODES[1]}


def test_a_node_that_disconnects_makes_room(tmp_path: Path) -> None:
    grid = grid_of()
    original = grid.pull_messages

    def pull(ids: Any) -> Any:
        if grid.clock.now() > 1003:
            grid.gone.add(NODES[2])
        return original(ids)

    grid.pull_messages = pull  # type: ignore[method-assign, assignment]
    started(grid, tmp_path / "run", versions=12, buffer=3)
    assert of(tmp_path / "run", Lost)
    assert len(of(tmp_path / "run", Stepped)) == 12


def test_a_reply_that_comes_after_the_patience_still_counts(tmp_path: Path) -> None:
    def once(node: int, nth: int) -> float:
        return 40.0 if (node, nth) == (NODES[0], 0) else 3.0

    def in_turn(node: int, nth: int) -> float:
        """A node answers one message after the other, the first one after 40 s."""
        return max(3.0, 40.0 - 7.0 * nth) if node == NODES[0] else 3.0

    for name, mods, delay in (("mod", (), once), ("plain", PLAIN, in_turn)):
        grid = grid_of(*mods, delay=delay)
        settings = {**EXACT, "staleness_limit": 100}
        started(grid, tmp_path / name, versions=20, buffer=3, timeout=10.0, **settings)
        names = {r.cid: r.name for r in of(tmp_path / name, Enrolled)}
        [first] = [
            r
            for r in accepted(tmp_path / name)
            if names[r.cid] == f"node-{NODES[0]}" and r.base == 0
        ]
        # With the mod, the node has sent the same bytes again when it was asked again.
        assert (first.staleness < 8) == (name == "mod")
        assert verified(tmp_path / name)


def test_an_app_that_raises_once_goes_on_after_a_rest(tmp_path: Path) -> None:
    def fate(node: int, nth: int) -> Any:
        return "error" if nth == 1 else "fine"

    grid = grid_of(fate=fate)
    started(grid, tmp_path / "run", versions=6, buffer=4)
    failed = of(tmp_path / "run", Failed)
    assert {r.error for r in failed} == {"ValueError: no luck"}
    assert len(failed) == len(NODES)


def test_a_node_that_is_not_connected_is_no_failure(tmp_path: Path) -> None:
    def fate(node: int, nth: int) -> Any:
        return "unavailable" if nth == 1 else "fine"

    grid = grid_of(fate=fate)
    started(grid, tmp_path / "run", versions=6, buffer=4)
    assert not of(tmp_path / "run", Failed)
    assert of(tmp_path / "run", Lost)


def test_if_every_node_fails_the_run_ends_with_a_sentence(tmp_path: Path) -> None:
    grid = grid_of(fate=lambda node, nth: "error")
    with pytest.raises(
        LatecomerError, match=r"every node failed 5 times.*node-1.: ValueError: no luck"
    ):
        started(grid, tmp_path / "run")


def test_without_any_reply_the_run_stops_and_can_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    grid = grid_of(fate=lambda node, nth: "lost")
    started(grid, tmp_path / "run", timeout=60.0)
    assert "no node has replied for 60 seconds" in caplog.text
    grid.fate = lambda node, nth: "fine"
    grid.forget()
    started(grid, tmp_path / "run")
    assert len(of(tmp_path / "run", Stepped)) == 3


# ------------------------------------------------------------------- what is returned


def returning(change: Callable[[RecordDict], None]) -> Any:
    """Returns a mod that changes what the app returns."""

    def mod(message: Message, context: Any, call_next: Any) -> Message:
        reply = call_next(message, context)
        change(reply.content)
        return reply

    return mod


def no_examples(content: RecordDict) -> None:
    content["metrics"] = MetricRecord({"train_loss": 1.0})


def another_shape(content: RecordDict) -> None:
    content["arrays"]["b1"] = Array(np.zeros(3, np.float32))


def a_missing_array(content: RecordDict) -> None:
    del content["arrays"]["b1"]


def no_arrays(content: RecordDict) -> None:
    del content["arrays"]


def not_a_number(content: RecordDict) -> None:
    content["arrays"]["b1"] = Array(np.full(200, np.nan, np.float32))


MISTAKES = {
    no_examples: "num-examples",
    another_shape: r"array 'b1' should have shape \[200\], has \[3\]",
    a_missing_array: "array 'b1' is missing",
    no_arrays: "train returned no arrays",
}


@pytest.mark.parametrize("change", MISTAKES)
@pytest.mark.parametrize("with_mod", [True, False])
def test_what_cannot_be_averaged_is_named(
    change: Any, with_mod: bool, tmp_path: Path
) -> None:
    from fedflower.mod import compressed

    mods = [compressed, returning(change)] if with_mod else [returning(change)]
    grid = grid_of(*mods)
    with pytest.raises(LatecomerError, match=f"every node failed.*{MISTAKES[change]}"):
        started(grid, tmp_path / "run")


@pytest.mark.parametrize("with_mod", [True, False])
def test_a_model_that_is_not_finite_changes_nothing(
    with_mod: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from fedflower.mod import compressed

    bad = NODES[0]

    def mod(message: Message, context: Any, call_next: Any) -> Message:
        reply = call_next(message, context)
        if context.node_config["partition-id"] == 0:
            not_a_number(reply.content)
        return reply

    grid = grid_of(*([compressed, mod] if with_mod else [mod]))
    result = started(grid, tmp_path / "run", versions=4, buffer=3)
    assert all(np.isfinite(a.numpy()).all() for a in result.arrays.values())
    assert f"node-{bad}" in caplog.text
    names = {r.cid: r.name for r in of(tmp_path / "run", Enrolled)}
    assert f"node-{bad}" not in {names[r.cid] for r in accepted(tmp_path / "run")}


def test_an_app_that_cannot_evaluate_goes_on_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    module = example("client_app")

    from fedflower.mod import compressed

    for mods in ([compressed], []):
        app = ClientApp(mods=mods)
        app.train()(module.train)
        grid = VirtualGrid(app, VirtualTime(), list(NODES), jitter(0), config=CONFIG)
        run = tmp_path / f"run-{len(mods)}"
        result = started(grid, run, evaluate_nodes=True)
        assert "evaluates no more" in caplog.text
        assert "has no metrics" not in caplog.text
        asked = [node for node, kind in grid.calls if kind == "evaluate"]
        assert sorted(asked) == NODES
        assert not result.evaluate_metrics_clientapp
        assert not of(run, Failed)
        assert len(of(run, Stepped)) == 3


# ----------------------------------------------------------------------- a journal


def test_a_restarted_server_app_goes_on_where_it_was(tmp_path: Path) -> None:
    grid = grid_of()
    started(grid, tmp_path / "run", versions=3, evaluate_fn=evaluate_fn())
    first = of(tmp_path / "run", Stepped)
    grid.forget()
    result = started(grid, tmp_path / "run", versions=6, evaluate_fn=evaluate_fn())
    stepped = of(tmp_path / "run", Stepped)
    assert stepped[:3] == first
    assert [r.version for r in stepped] == [1, 2, 3, 4, 5, 6]
    assert [*result.train_metrics_clientapp] == [1, 2, 3, 4, 5, 6]
    assert [*result.evaluate_metrics_serverapp] == list(range(7))
    servers = of(tmp_path / "run", Evaluated)
    assert len(servers) == 7  # none twice
    assert verified(tmp_path / "run")


def test_a_run_that_has_ended_returns_its_result_again(tmp_path: Path) -> None:
    grid = grid_of()
    first = started(grid, tmp_path / "run", evaluate_fn=evaluate_fn())
    pushed = grid.pushed
    again = started(grid, tmp_path / "run", evaluate_fn=evaluate_fn())
    assert grid.pushed == pushed
    assert str(again) == str(first)
    for name in first.arrays:
        assert np.array_equal(first.arrays[name].numpy(), again.arrays[name].numpy())


def test_a_server_app_that_stops_in_the_middle_loses_and_doubles_nothing(
    tmp_path: Path,
) -> None:
    class Killed(BaseException):
        """The process is gone."""

    for stop in (5, 9, 14, 17):
        run, grid = tmp_path / f"run-{stop}", grid_of()
        original, pulls = grid.pull_messages, [0]

        def pull(
            ids: Any, stop: int = stop, original: Any = original, pulls: Any = pulls
        ) -> Any:
            found = original(ids)
            pulls[0] += len(found)
            if pulls[0] >= stop:
                pulls[0] = -(10**9)
                raise Killed
            return found

        grid.pull_messages = pull  # type: ignore[method-assign, assignment]
        with pytest.raises(Killed):
            started(grid, run, versions=6)
        before = accepted(run)
        grid.forget()
        started(grid, run, versions=6)
        assert accepted(run)[: len(before)] == before
        seqs = [(r.cid, r.seq) for r in of(run, Decided)]
        assert len(seqs) == len(set(seqs))
        assert sum(r.count for r in of(run, Stepped)) == len(accepted(run))
        assert verified(run)


def test_the_same_flower_run_goes_on_with_what_the_nodes_keep(tmp_path: Path) -> None:
    grid = grid_of()
    started(grid, tmp_path / "run", versions=3)
    result = started(grid, tmp_path / "run", versions=6)  # their Contexts are there
    assert result.train_metrics_clientapp
    assert verified(tmp_path / "run")
    assert len(accepted(tmp_path / "run")) == 24


def test_a_journal_of_another_recipe_or_model_is_refused(tmp_path: Path) -> None:
    grid = grid_of()
    started(grid, tmp_path / "run", versions=1)
    with pytest.raises(
        ConfigError, match=r"began with other settings: algorithm.buffer"
    ):
        started(grid, tmp_path / "run", buffer=3)
    strategy = Latecomer(journal=tmp_path / "run")
    other = ArrayRecord({"w": Array(np.zeros(3, np.float32))})
    with pytest.raises(LatecomerError, match="initial_arrays of this ServerApp"):
        strategy.start(grid, other, 5)
    busy = open_run_of(tmp_path / "run")
    with pytest.raises(JournalError, match=r"in use|another"):
        started(grid, tmp_path / "run", versions=5)
    busy.journal.close()


def open_run_of(folder: Path) -> Any:
    from fedrun.config import parse_config

    journal = Journal.open(folder, read_only=True)
    told = journal.configurations()[-1][1].config
    journal.close()
    return open_run(parse_config(told), 0.0)


def test_without_a_folder_the_log_names_a_temporary_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "flwr.latecomer")
    started(grid_of(), None, versions=1)
    assert "The journal is /" in caplog.text
    assert "give journal= a folder to resume from" in caplog.text


# ------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"bufer": 3}, "bufer"),
        ({"kind": "fed_average"}, "fed_average"),
        ({"buffer": 0}, "buffer"),
        ({"evaluate_every": 0}, "evaluate_every is 0; expected 1 or more"),
    ],
)
def test_wrong_settings_are_refused_at_once(given: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        Latecomer(**given)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"kind": "scaffold"}, "a Flower ClientApp trains by code of its own"),
        (
            {"controllers": [{"kind": "bandwidth", "daily": 10**6}]},
            "algorithm.controllers: bandwidth",
        ),
    ],
)
def test_recipes_that_a_client_app_cannot_follow_are_refused(
    given: Any, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        started(grid_of(), tmp_path / "run", **given)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("synchronous", [False, True])
def test_a_first_model_that_is_not_finite_is_refused_at_once(
    value: float, synchronous: bool, tmp_path: Path
) -> None:
    arrays, grid = initial_arrays(), grid_of()
    values = arrays["b1"].numpy().copy()
    values[3] = value
    arrays["b1"] = Array(values)
    settings = {"kind": "fed_avg" if synchronous else "latecomer"}
    strategy = Latecomer(settings, journal=tmp_path / "run", synchronous=synchronous)
    with pytest.raises(
        ModelError,
        match=r"^initial_arrays: tensor 'b1' holds NaN or an infinite value; expected",
    ):
        strategy.start(grid, arrays, 3, timeout=5.0)
    assert not (tmp_path / "run").exists()
    assert grid.pushed == 0


def test_changes_need_the_mod(tmp_path: Path) -> None:
    grid = grid_of(*PLAIN)
    with pytest.raises(LatecomerError, match=r"ef21 needs the mod: ClientApp\(mods="):
        started(grid, tmp_path / "run", kind="ef21")
    started(grid_of(), tmp_path / "with", kind="ef21", buffer=4)
    assert verified(tmp_path / "with")


def test_a_file_or_a_mapping_gives_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "federation.yaml"
    file.write_text("seed: 7\nalgorithm: {kind: fed_buff, buffer: 5}\n")
    read = Latecomer(str(file)).config
    assert (read.algorithm.kind, read.algorithm.buffer, read.seed) == ("fed_buff", 5, 7)
    read = Latecomer({"kind": "fed_buff", "buffer": 5}, buffer=6, seed=3).config
    assert (read.algorithm.kind, read.algorithm.buffer, read.seed) == ("fed_buff", 6, 3)


@pytest.mark.parametrize("mods", [(), PLAIN])
@pytest.mark.parametrize(
    "aggregator",
    [
        {"kind": "fed_nova"},
        {"kind": "flexible_participation", "scheme": "A"},
        {"kind": "flexible_participation", "scheme": "C"},
    ],
)
def test_the_whole_work_of_a_node_counts_once(
    mods: Any, aggregator: dict[str, Any]
) -> None:
    client: dict[str, Any] = {"kind": "local_sgd", "epochs": 1}
    if aggregator["kind"] == "flexible_participation":  # FedNova is no mean of these
        client["overrides"] = [{"clients": [str(NODES[0])], "epochs": 2}]
    more: dict[str, Any] = {"kind": "fed_avg", "buffer": len(NODES)}
    more |= {"client": client, **EXACT}
    mean, other = (
        started(grid_of(*mods), None, aggregator=each, **more)
        for each in ({"kind": "weighted_mean"}, aggregator)
    )
    for name, array in mean.arrays.items():
        np.testing.assert_allclose(
            array.numpy(), other.arrays[name].numpy(), rtol=1e-5, atol=1e-6
        )
