"""The mod of a ClientApp: what it keeps in Context.state, and when it settles."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr.app")
from fedwire.records import RECORD
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict

from benchmarks.flower.virtual_grid import VirtualGrid, VirtualTime, jitter, size
from fedcore.errors import LatecomerError
from fedcore.protocol import MOST_CLIENTS
from fedflower.app.messages import read_place
from fedflower.mod import LOCAL, compressed
from fedflower.strategy import Latecomer
from tests.fedflower.strategy.app import CONFIG, NODES, client_app, initial_arrays

pytestmark = pytest.mark.needs("flwr")


def run(grid: VirtualGrid, versions: int = 3, **settings: Any) -> Any:
    strategy = Latecomer(**{"evaluate_nodes": False, **settings})
    strategy._clock = lambda start: grid.clock
    return strategy.start(grid, settings.get("arrays", initial_arrays()), versions)


def grid_of(*mods: Any, **given: Any) -> VirtualGrid:
    clock = VirtualTime()
    return VirtualGrid(
        client_app(*mods), clock, list(NODES), jitter(0), config=CONFIG, **given
    )


def memory(context: Any) -> Any:
    return np.frombuffer(context.state[RECORD]["vector.memory"], np.float32)


def test_messages_of_other_strategies_pass_through() -> None:
    grid = grid_of()
    content = RecordDict({"arrays": initial_arrays(), "config": _round()})
    message = Message(content, dst_node_id=NODES[0], message_type="train")
    reply = grid._call(NODES[0], message)
    assert list(reply.content["arrays"]) == list(initial_arrays())
    assert not grid.contexts[NODES[0]].state


def _round() -> Any:
    from flwr.app import ConfigRecord

    return ConfigRecord({"server-round": 1})


def test_the_app_sees_arrays_alone_and_the_wire_sees_none() -> None:
    seen: list[Any] = []

    def look(message: Message, context: Any, call_next: Any) -> Message:
        seen.append((list(message.content), RECORD in context.state))
        reply = call_next(message, context)
        seen.append(list(reply.content))
        return reply

    grid = grid_of(compressed, look)
    replies: list[Any] = []
    original = grid.pull_messages

    def pull(ids: Any) -> Any:
        found = list(original(ids))
        replies.extend(reply.content for reply in found)
        return found

    grid.pull_messages = pull  # type: ignore[method-assign, assignment]
    run(grid, buffer=4)
    given = [each for each in seen if isinstance(each, tuple)]
    assert all(sorted(names) == ["arrays", "config"] and kept for names, kept in given)
    assert all(not content.array_records for content in replies)
    assert all(content["metrics"]["num-examples"] for content in replies)


def test_the_memory_keeps_what_a_message_leaves_out() -> None:
    grid = grid_of()
    run(grid, buffer=4)
    norms = [np.linalg.norm(memory(context)) for context in grid.contexts.values()]
    pending = [
        "residual" in str(c.state[RECORD]["names"]) for c in grid.contexts.values()
    ]
    assert any(norm > 0 for norm in norms) or any(pending)


def test_a_reply_that_was_lost_is_sent_again_in_the_same_bytes() -> None:
    pushes: list[tuple[int, bytes]] = []

    def note(message: Message, context: Any, call_next: Any) -> Message:
        reply = compressed(message, context, call_next)
        record = reply.content.config_records.get(RECORD, {})
        if "push" in record:
            pushes.append((context.node_id, record["push"]))
        return reply

    grid = grid_of(note)
    original = grid._push

    def push(message: Message) -> str:
        name = original(message)
        if grid.pushed == 2:  # computed and kept by the node, and lost on its way
            del grid.coming[name]
        return name

    grid._push = push  # type: ignore[method-assign]
    strategy = Latecomer(evaluate_nodes=False, buffer=3)
    strategy._clock = lambda start: grid.clock
    strategy.start(grid, initial_arrays(), 20, timeout=8.0)
    second = [push for node, push in pushes if node == NODES[1]]
    assert second[0] == second[1]
    assert second[1] not in second[2:]


def test_arrays_of_whole_numbers_stay_on_the_node() -> None:
    flwr_arrays = ArrayRecord(
        {
            "w": Array(np.ones(100, np.float32)),
            "n": Array(np.array(0, np.int64)),
        }
    )
    counted: dict[int, list[int]] = {}

    def train(message: Message, context: Any) -> Message:
        given = message.content["arrays"]
        count = int(given["n"].numpy())
        counted.setdefault(context.node_id, []).append(count)
        content = RecordDict(
            {
                "arrays": ArrayRecord(
                    {
                        "w": Array(given["w"].numpy() * np.float32(0.9)),
                        "n": Array(np.array(count + 1, np.int64)),
                    }
                ),
                "metrics": MetricRecord({"num-examples": 5}),
            }
        )
        return Message(content, reply_to=message)

    from flwr.clientapp import ClientApp

    app = ClientApp(mods=[compressed])
    app.train()(train)
    grid = VirtualGrid(app, VirtualTime(), list(NODES), jitter(0))
    strategy = Latecomer(evaluate_nodes=False, buffer=4)
    strategy._clock = lambda start: grid.clock
    result = strategy.start(grid, flwr_arrays, 4)
    assert all(counts == list(range(len(counts))) for counts in counted.values())
    assert max(map(len, counted.values())) > 2
    assert all(LOCAL in context.state for context in grid.contexts.values())
    assert int(result.arrays["n"].numpy()) == 0
    assert result.arrays["w"].numpy().min() < 1


@pytest.mark.parametrize(
    "given",
    [
        {"partition-id": "two", "num-partitions": 4},
        {"partition-id": 4, "num-partitions": 4},
        {"partition-id": -1, "num-partitions": 4},
        {"partition-id": 0.5, "num-partitions": 4},
        {"partition-id": True, "num-partitions": 4},
        {"partition-id": 1, "num-partitions": 2**40},
        {"partition_id": 1, "num_partitions": "9" * 5000},
    ],
)
def test_a_part_of_the_data_that_cannot_be_is_named_in_a_sentence(
    given: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    grid = grid_of()
    for context in grid.contexts.values():
        context.node_config.clear()
        context.node_config.update(given)
    index, count = given
    with pytest.raises(
        LatecomerError,
        match=f"^every node failed 5 times in a row; the last one said: node-1.: "
        f"node config: {index}=.* and {count}=.*: expected whole numbers, "
        f"0 <= {index} < {count} <= 4294967295$",
    ):
        run(grid)
    nodes = {r.getMessage() for r in caplog.records if r.levelname == "ERROR"}
    assert len(nodes) == 1


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({}, (0, 1)),
        ({"partition-id": 2}, (0, 1)),
        ({"partition-id": "2", "num-partitions": 3}, (2, 3)),
        ({"partition_id": 2, "num_partitions": 3}, (2, 3)),
        (
            {"partition-id": 0, "num-partitions": MOST_CLIENTS},
            (0, MOST_CLIENTS),
        ),
    ],
)
def test_a_part_of_the_data_is_that_of_the_node_config(
    given: dict[str, Any], place: tuple[int, int]
) -> None:
    assert read_place(given) == place


@pytest.mark.parametrize("damage", ["forget", "flip"])
def test_a_node_that_lost_its_context_begins_again(
    damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    grid = grid_of()
    original = grid._call

    def call(node: int, message: Message) -> Message:
        context = grid.contexts[node]
        if node == NODES[0] and grid.counts[node] == 3:
            if damage == "forget":
                context.state = RecordDict()
            elif "vector.public" in context.state[RECORD]:
                blob = bytearray(context.state[RECORD]["vector.public"])
                blob[5] ^= 1
                context.state[RECORD]["vector.public"] = bytes(blob)
        return original(node, message)

    grid._call = call  # type: ignore[method-assign]
    run(grid, 8, buffer=4)
    said = "holds nothing of this run" if damage == "forget" else "is damaged"
    assert said in caplog.text


def test_a_node_that_lost_a_model_does_not_train_on_another_one() -> None:
    """The server believes that it holds the newest model, and sends none."""
    grid = grid_of()
    original, before, faults = grid._call, RecordDict(), list[Any]()

    def call(node: int, message: Message) -> Message:
        nonlocal before
        context = grid.contexts[node]
        if node == NODES[0] and RECORD in context.state:
            if message.metadata.message_type == "evaluate":  # it brings a model
                before = deepcopy(context.state)
            elif RECORD in before:
                context.state, before = before, RecordDict()
        reply = original(node, message)
        faults.append(reply.content.config_records[RECORD].get("fault"))
        return reply

    grid._call = call  # type: ignore[method-assign]
    run(grid, 8, buffer=4, evaluate_nodes=True)
    assert "the server supposes another version on this node" in faults


def test_a_patch_travels_instead_of_the_model() -> None:
    grid = grid_of()
    sizes: list[int] = []
    original = grid._push

    def push(message: Message) -> str:
        sizes.append(size(message.content))
        return original(message)

    grid._push = push  # type: ignore[method-assign]
    run(grid, 6, buffer=4)
    whole = size(RecordDict({"arrays": initial_arrays()}))
    assert all(each > whole for each in sizes[: len(NODES)])
    assert max(sizes[len(NODES) :]) < whole / 3
