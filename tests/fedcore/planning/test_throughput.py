"""The throughput of many clients: laws, and queues whose answer is known."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcore.errors import ConfigError
from fedcore.planning.demands import RESOURCES, Demands, demands_of
from fedcore.planning.throughput import Pace, predict
from fedcore.planning.trace import Row, Trace, trace_of
from fedcore.rng import Key

KEY = Key.root(0)
ASYNC = Pace(1)


def demands(
    own_J: Any, *, up: Any = 0.0, down: Any = 0.0, server: Any = 0.0, **more: Any
) -> Demands:
    """Tasks of these seconds on resources of capacity 1."""
    own_J = np.asarray(own_J, float)

    def column(value: Any) -> Any:
        return np.broadcast_to(np.asarray(value, float), own_J.shape)

    given: dict[str, Any] = {
        "capacities": dict.fromkeys(RESOURCES, 1.0),
        "rates": dict.fromkeys(RESOURCES, math.inf),
    }
    return Demands(
        column(0.0),
        column(down),
        own_J,
        column(up),
        column(server),
        column(0.0),
        np.ones(own_J.shape, bool),
        **(given | more),
    )


def traced(
    times: list[tuple[float, float, float]], up: int = 1000, down: int = 2000
) -> Trace:
    """A trace of these seconds of download, training and upload, after a first task."""
    rows, now = [], 0.0
    for task, (download, compute, upload) in enumerate([times[0], *times]):
        for phase, seconds, nbytes, version in (
            ("download", download, down, task),
            ("compute", compute, 0, None),
            ("upload", upload, up, None),
            ("verdict", 0.25 * upload, 0, None),
        ):
            rows.append(Row(task, phase, now, seconds, nbytes, None, version))
            now += seconds
    return trace_of("ann", rows)


TIMES = st.tuples(st.floats(0.01, 1), st.floats(0.01, 3), st.floats(0.01, 1))


@settings(max_examples=25)
@given(
    st.lists(TIMES, min_size=10, max_size=15),
    st.sampled_from([None, 500.0, 5e4]),
    st.booleans(),
)
def test_one_client_takes_exactly_the_time_of_the_trace(
    times: list[tuple[float, float, float]], rate: float | None, waits: bool
) -> None:
    trace = traced(times)
    found, _ = demands_of(trace, up=rate, down=rate)
    told = predict(found, 1, Pace(1, is_synchronous=waits), key=KEY, updates=60)
    assert found.cycle == pytest.approx(trace.cycle)
    assert 1 / told.updates_per_second == pytest.approx(trace.cycle)
    assert told.staleness_T.tolist() == [told.updates]


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.floats(0.1, 2), min_size=5, max_size=20),
    st.floats(0, 0.5),
    st.floats(0, 0.5),
    st.booleans(),
)
def test_more_clients_are_never_slower_nor_beyond_a_bound(
    own: list[float], up: float, server: float, waits: bool
) -> None:
    found, before = demands(own, up=up, server=server), 0.0
    for clients in (1, 2, 4, 8):
        pace = Pace(clients, is_synchronous=True) if waits else ASYNC
        told = predict(found, clients, pace, key=KEY, updates=2000)
        assert told.updates_per_second >= 0.97 * before  # the draws differ
        assert told.updates_per_second <= 1.03 * told.bounds[told.limit]
        for name in RESOURCES:
            assert told.utilisation[name] <= 1 + 1e-9
        before = told.updates_per_second


def test_with_free_links_throughput_grows_with_the_number_of_clients() -> None:
    own = np.linspace(0.5, 1.5, 20)
    free = dict.fromkeys(RESOURCES, math.inf)
    found = demands(own, up=0.4, down=0.3, capacities=free)
    one = predict(found, 1, ASYNC, key=KEY).updates_per_second
    for clients in (2, 8, 32):
        told = predict(found, clients, ASYNC, key=KEY)
        assert told.updates_per_second == pytest.approx(clients * one, rel=0.02)


def test_links_that_are_not_free_make_it_grow_less() -> None:
    """The negative control of the law above."""
    found = demands(np.linspace(0.5, 1.5, 20), up=0.4, down=0.3)
    one = predict(found, 1, ASYNC, key=KEY).updates_per_second
    eight = predict(found, 8, ASYNC, key=KEY).updates_per_second
    assert eight < 0.7 * 8 * one


@pytest.mark.parametrize("clients", [2, 5, 10])
def test_the_machine_repairman_is_met(clients: int) -> None:
    """Exponential own times and a processor-sharing server have a product form.

    Mean value analysis (Reiser, Lavenberg, JACM 27(2), 1980) is exact for it:
    R(n) = S (1 + Q(n - 1)), X(n) = n / (Z + R(n)), Q(n) = X(n) R(n).
    """
    rng, z, s = np.random.default_rng(1), 4.0, 1.0
    own, up = rng.exponential(z, 4000), rng.exponential(s, 4000)
    found = demands(own * z / own.mean(), up=up * s / up.mean())
    queue = 0.0
    for n in range(1, clients + 1):
        response = s * (1 + queue)
        rate = n / (z + response)
        queue = rate * response
    told = predict(found, clients, ASYNC, key=KEY, updates=40_000)
    assert told.updates_per_second == pytest.approx(rate, rel=0.02)
    assert told.utilisation["uplink"] == pytest.approx(rate * s, rel=0.02)


def test_a_round_takes_as_long_as_its_slowest_client() -> None:
    # Two clients, tasks of 1 or 3 s: a round takes 1 s in a quarter of the cases.
    told = predict(
        demands([1.0, 3.0]), 2, Pace(2, is_synchronous=True), key=KEY, updates=20_000
    )
    assert told.versions_per_second == pytest.approx(1 / 2.5, rel=0.03)
    assert told.staleness_T.tolist() == [told.updates]


def test_equal_clients_in_step_are_late_by_all_others() -> None:
    # With K = 1, between download and verdict each other client brings one update.
    told = predict(demands(np.ones(10), server=0.01), 4, ASYNC, key=KEY)
    shares_T = told.staleness_T / told.staleness_T.sum()
    assert np.arange(len(shares_T)) @ shares_T == pytest.approx(3, abs=0.02)


def test_a_buffer_makes_fewer_versions() -> None:
    told = predict(demands(np.linspace(1, 2, 10)), 8, Pace(4), key=KEY)
    ratio = told.updates_per_second / told.versions_per_second
    assert ratio == pytest.approx(4, rel=0.01)


def test_a_small_cohort_lets_the_others_wait() -> None:
    found = demands(np.ones(10))
    told = predict(found, 6, Pace(2, is_synchronous=True), key=KEY)
    assert told.updates_per_second == pytest.approx(2.0)
    assert told.seconds["wait"] == pytest.approx(2.0, rel=0.05)  # 1 of 3 rounds


def test_the_same_key_predicts_the_same() -> None:
    found = demands(np.linspace(1, 2, 10), up=0.3)
    one, two = (predict(found, 4, ASYNC, key=KEY) for _ in range(2))
    assert one.updates_per_second == two.updates_per_second


def test_the_bytes_of_a_slow_link_are_the_clients_own_where_it_is_told() -> None:
    trace = traced([(1.0, 1.0, 1.0)] * 12)  # 2,000 bytes a second down
    known, doubts = demands_of(trace, up=1e6, down=1e6, server=0.0)
    assert not doubts
    assert known.rates["downlink"] == pytest.approx(2000)
    unknown, doubts = demands_of(trace, server=0.0)
    assert len(doubts) == 2
    assert unknown.capacities["downlink"] == pytest.approx(2000)
    assert unknown.saturation < known.saturation / 100


def test_a_trace_that_was_faster_than_the_server_is_pointed_out() -> None:
    trace = traced([(1.0, 1.0, 1.0)] * 12)  # 2,000 bytes a second down
    assert not demands_of(trace, up=1500.0, down=1500.0, server=0.0)[1]
    _, doubts = demands_of(trace, up=100.0, down=100.0, server=60.0)
    assert len(doubts) == 3
    assert all("so the prediction is too high" in doubt for doubt in doubts[:2])
    assert "said to work 6e+04 ms on an update" in doubts[2]


@pytest.mark.parametrize(
    ("clients", "pace", "sentence"),
    [
        (0, ASYNC, "expected 1 client and a buffer of 1 or more"),
        (1, Pace(0), "expected 1 client and a buffer of 1 or more"),
        (2, Pace(3, is_synchronous=True), "a cohort of 3 does not find as many"),
    ],
)
def test_what_cannot_be_predicted_is_said(
    clients: int, pace: Pace, sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        predict(demands([1.0]), clients, pace, key=KEY)
