"""Tasks in parts: laws of overlap and order, and cases whose answer is known."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcore.errors import ConfigError
from fedcore.planning.demands import RESOURCES, demands_of
from fedcore.planning.parts import Order, parts_of
from fedcore.planning.throughput import Pace, Prediction, predict
from fedcore.planning.trace import Row, Trace, trace_of
from fedcore.rng import Key

ORDERS: tuple[Order, ...] = ("whole", "fifo", "priority")
TASKS = 12
AMOUNT = st.integers(1, 30)
Layer = tuple[int, int, int, int]
"""Bytes down, seconds of the forward and of the backward pass, bytes up."""
LAYERS = st.lists(st.tuples(AMOUNT, AMOUNT, AMOUNT, AMOUNT), min_size=1, max_size=5)


def rows_of(layers: list[Layer], task: int = 0, began: float = 0.0) -> list[Row]:
    """The rows of a client alone that overlaps, in order ``fifo``, at rate 1.

    It is written by hand, second by second, so that it can be held against the model.
    """
    rows, arrived, last = list[Row](), dict[int, float](), len(layers) - 1
    now = began
    for part in range(last, -1, -1):
        down = layers[part][0]
        rows.append(Row(task, "download", now, down, down, None, task, part))
        now = arrived[part] = now + down
    now = began
    for part, (_, forward, _, _) in enumerate(layers):
        now = max(now, arrived[part])
        rows.append(Row(task, "compute", now, forward, 0, "download", None, part))
        now += forward
    sent = began
    for part in range(last, -1, -1):
        _, _, backward, up = layers[part]
        rows.append(Row(task, "compute", now, backward, 0, "compute", None, part))
        now += backward
        sent = max(sent, now)
        rows.append(Row(task, "upload", sent, up, up, "compute", None, part))
        sent += up
    rows.append(Row(task, "verdict", max(now, sent), 0.0, 0, "upload"))
    return rows


def traced(layers: list[Layer], paces: list[int] | None = None) -> Trace:
    """The trace of so many tasks, whose computing takes so many times as long."""
    rows, now = list[Row](), 0.0
    for task, pace in enumerate([1, *(paces or [1] * TASKS)]):
        slower = [(d, pace * f, pace * b, u) for d, f, b, u in layers]
        rows += rows_of(slower, task, now)
        now = rows[-1].start
    return trace_of("ann", rows)


def predicted(
    trace: Trace, order: Order, clients: int = 1, rate: float = 1.0
) -> Prediction:
    demands, _ = demands_of(trace, up=rate, down=rate, server=0.0, order=order)
    return predict(demands, clients, Pace(1), key=Key.root(0), updates=600)


def seconds(layers: list[Layer], order: Order) -> float:
    """The time of a client alone."""
    return 1 / predicted(traced(layers), order).updates_per_second


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("whole", (2 + 4) + (4 + 3) + (5 + 1) + (1 + 2)),
        # Layer 1 is there after 4 s, layer 0 after 6, so that the forward pass takes
        # until 13. Layer 1 is sent from 18 to 19, layer 0 is computed until 19 as well.
        ("fifo", 21),
        # Layer 0 is there after 2 s and computed until 6, as layer 1 arrives.
        ("priority", 6 + 3 + 5 + 1 + 2),
    ],
)
def test_two_layers_of_one_worker(order: Order, expected: float) -> None:
    layers = [(2, 4, 1, 2), (4, 3, 5, 1)]
    assert seconds(layers, order) == pytest.approx(expected)


def test_the_parts_of_two_workers_share_the_link() -> None:
    # Both compute layer 1 for 1 s and send it together until 3, which hides the second
    # that layer 0 takes, and then send layer 0 until 5.
    rows = list[Row]()
    for task in range(TASKS):
        now = 3.0 * task
        rows += [
            Row(task, "compute", now, 1.0, 0, None, None, 1),
            Row(task, "upload", now + 1, 1.0, 1, "compute", None, 1),
            Row(task, "compute", now + 1, 1.0, 0, None, None, 0),
            Row(task, "upload", now + 2, 1.0, 1, "compute", None, 0),
            Row(task, "verdict", now + 3, 0.0, 0, "upload"),
        ]
    trace = trace_of("ann", rows)
    assert predicted(trace, "fifo", 2).updates_per_second == pytest.approx(2 / 5)
    assert predicted(trace, "whole", 2).updates_per_second == pytest.approx(2 / 6)


@given(LAYERS)
def test_a_trace_of_parts_is_reproduced(layers: list[Layer]) -> None:
    trace = traced(layers)
    wall = rows_of(layers)[-1].start
    assert trace.cycle == pytest.approx(wall)
    assert trace.tasks[0].idle == pytest.approx(0.0)
    demands, _ = demands_of(trace, up=1.0, down=1.0, server=0.0)
    assert demands.cycle == pytest.approx(wall)
    assert seconds(layers, "fifo") == pytest.approx(wall)


@given(LAYERS)
def test_overlap_never_costs_a_client_alone_time_and_priority_is_the_best_order(
    layers: list[Layer],
) -> None:
    times = [seconds(layers, order) for order in ORDERS]
    assert all(after <= before + 1e-9 for before, after in pairwise(times))
    down, forward, backward, up = np.sum(layers, axis=0)
    compute = forward + backward
    assert times[0] == pytest.approx(down + compute + up)
    assert times[-1] >= max(compute, down, up) - 1e-9


@settings(max_examples=20, deadline=None)
@given(LAYERS, st.lists(st.integers(1, 4), min_size=10, max_size=15))
def test_no_order_changes_the_bytes_or_exceeds_a_bound(
    layers: list[Layer], paces: list[int]
) -> None:
    trace = traced(layers, paces)
    down, _, _, up = np.sum(layers, axis=0)
    for order in ORDERS:
        for clients in (1, 2, 8):
            told = predicted(trace, order, clients)
            rate = told.updates_per_second
            assert told.utilisation["uplink"] / rate == pytest.approx(up, rel=0.05)
            assert told.utilisation["downlink"] / rate == pytest.approx(down, rel=0.05)
            assert told.bounds["uplink"] == pytest.approx(1 / up)
            assert rate <= 1.03 * told.bounds[told.limit]


@settings(max_examples=20, deadline=None)
@given(LAYERS)
def test_a_free_link_leaves_nothing_to_hide(layers: list[Layer]) -> None:
    free = dict.fromkeys(RESOURCES, math.inf)
    _, forward, backward, _ = np.sum(layers, axis=0)
    for order in ORDERS:
        demands, _ = demands_of(traced(layers), server=0.0, order=order)
        freed = demands._replace(capacities=free, rates=free)
        told = predict(freed, 4, Pace(1), key=Key.root(0), updates=200)
        assert told.updates_per_second == pytest.approx(4 / (forward + backward))


def test_a_task_of_one_part_is_a_task_without_parts() -> None:
    divided = traced([(3, 2, 4, 5)])
    rows = [row for task in divided.tasks for row in task.rows]
    assert parts_of(divided.tasks[0].rows, "fifo") == ([3], [1, 1], [2, 4], [2], [5])
    whole = trace_of("ann", [*rows[:5], *(row._replace(part=None) for row in rows)])
    assert not whole.tasks[0].rows
    one, two = (predicted(trace, "fifo", 3) for trace in (divided, whole))
    assert one.updates_per_second == pytest.approx(two.updates_per_second)


def test_tasks_of_many_parts_and_of_few_are_taken_together() -> None:
    few, many = [(3, 1, 1, 1)], [(9, 1, 1, 2), (9, 1, 1, 2), (9, 1, 1, 2)]
    rows, now = list[Row](), 0.0
    for task in range(3 * TASKS):
        rows += rows_of(many if task % 2 else few, task, now)
        now = rows[-1].start
    told = predicted(trace_of("ann", rows), "fifo", 3)
    assert told.utilisation["downlink"] / told.updates_per_second == pytest.approx(
        (3 + 27) / 2, rel=0.05
    )
    assert told.updates_per_second <= told.bounds["downlink"]


def test_an_order_without_parts_is_pointed_out() -> None:
    divided = traced([(3, 2, 4, 5)])
    rows = [row._replace(part=None) for task in divided.tasks for row in task.rows]
    for order in ORDERS:
        _, doubts = demands_of(trace_of("ann", [*rows[:5], *rows]), order=order)
        assert any("--order" in doubt for doubt in doubts) == (order == "priority")


def test_parts_of_one_lane_cannot_be_worked_on_at_once() -> None:
    rows = [
        row._replace(start=0.0) if row.phase == "download" else row
        for row in rows_of([(1, 1, 1, 1), (1, 1, 1, 1)])
    ]
    again = [row._replace(task=1) for row in rows]
    with pytest.raises(ConfigError, match="starts at 0 s, before the phase in front"):
        trace_of("ann", [*rows, *again])
