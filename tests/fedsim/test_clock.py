"""Virtual time."""

from hypothesis import given
from hypothesis import strategies as st

from fedsim.clock import Clock

TIMES = st.lists(st.floats(0, 100))


def all_of(clock: Clock[int]) -> list[tuple[float, int]]:
    """What happens, and when, until nothing is left."""
    found = []
    while (what := clock.next()) is not None:
        found.append((clock.now, what))
    return found


@given(TIMES)
def test_things_happen_in_the_order_of_time_and_then_of_scheduling(
    times: list[float],
) -> None:
    clock: Clock[int] = Clock()
    for number, time in enumerate(times):
        clock.at(time, number)
    expected = sorted((time, number) for number, time in enumerate(times))
    assert all_of(clock) == expected


@given(TIMES, st.floats(0, 100))
def test_up_to_a_time_nothing_happens_that_is_due_later(
    times: list[float], until: float
) -> None:
    clock: Clock[float] = Clock()
    for time in times:
        clock.at(time, time)
    found = []
    while (what := clock.next(until)) is not None:
        found.append(what)
    assert found == sorted(time for time in times if time <= until)


@given(TIMES, TIMES)
def test_time_never_runs_backwards(first: list[float], later: list[float]) -> None:
    clock: Clock[int] = Clock()
    for time in first:
        clock.at(time, 0)
    seen = [0.0]
    for time in later:
        clock.next()
        seen.append(clock.now)
        clock.at(time, 1)  # perhaps in the past
    seen += [now for now, _ in all_of(clock)]
    assert seen == sorted(seen)


def test_what_is_scheduled_in_the_past_happens_now_and_after_what_is_due() -> None:
    clock: Clock[int] = Clock()
    clock.at(5.0, 1)
    clock.at(5.0, 2)
    assert clock.next() == 1
    clock.at(3.0, 3)
    assert all_of(clock) == [(5.0, 2), (5.0, 3)]


@given(st.floats(0, 100), st.floats(0, 100))
def test_a_delay_counts_from_now(now: float, delay: float) -> None:
    clock: Clock[int] = Clock()
    clock.at(now, 1)
    clock.next()
    clock.after(delay, 2)
    assert all_of(clock) == [(now + delay, 2)]


def test_an_empty_clock_stands_still() -> None:
    clock: Clock[int] = Clock()
    clock.at(7.0, 1)
    clock.next()
    assert clock.next() is None
    assert clock.now == 7.0
