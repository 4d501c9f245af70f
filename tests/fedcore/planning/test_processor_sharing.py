"""Jobs that share a resource: cases worked by hand, and laws."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore.errors import ConfigError
from fedcore.planning.processor_sharing import ProcessorSharing

AMOUNT = st.floats(0.01, 10)


def served(
    resource: ProcessorSharing, arrivals: list[tuple[float, float]]
) -> list[float]:
    """When each job leaves; arrivals are in order of time."""
    left, waiting = [math.nan] * len(arrivals), [*enumerate(arrivals)]
    while waiting or len(resource):
        at = waiting[0][1][0] if waiting else math.inf
        if resource.next_departure() <= at:
            now = resource.next_departure()
            left[resource.depart(now)] = now
        else:
            job, (now, amount) = waiting.pop(0)
            resource.arrive(now, amount, job)
    return left


def test_two_jobs_share_by_halves() -> None:
    # Alone to 1, one of 3 left; together until the second has its 1: 1 + 2 = 3, when
    # the first has 1 + 1 of its 3; it gets the last one alone and leaves at 4.
    assert served(ProcessorSharing(1.0), [(0, 3), (1, 1)]) == pytest.approx([4, 3])


def test_a_job_gets_no_more_than_its_own_rate() -> None:
    # Capacity 4, rate 1: up to four jobs do not notice each other.
    resource = ProcessorSharing(4.0, rate=1.0)
    assert served(resource, [(0, 2), (0, 2), (1, 1)]) == pytest.approx([2, 2, 2])
    # Five jobs of 4 share 4: each is served at 4 / 5.
    resource = ProcessorSharing(4.0, rate=1.0)
    assert served(resource, [(0, 4)] * 5) == pytest.approx([5] * 5)


@given(st.lists(st.tuples(st.floats(0, 5), AMOUNT), min_size=1, max_size=12))
def test_work_is_conserved(jobs: list[tuple[float, float]]) -> None:
    jobs = sorted(jobs)
    resource = ProcessorSharing(2.0)
    left = served(resource, jobs)
    total = sum(amount for _, amount in jobs)
    assert resource.work == pytest.approx(total)
    assert resource.busy == pytest.approx(total / 2.0)  # no rate holds it back
    for (at, amount), end in zip(jobs, left, strict=True):
        assert end - at >= amount / 2.0 - 1e-9


@given(
    st.lists(st.tuples(st.floats(0, 5), AMOUNT), min_size=1, max_size=8),
    st.floats(0.1, 3),
    st.floats(0.1, 3),
)
def test_it_equals_small_steps_of_equal_shares(
    jobs: list[tuple[float, float]], capacity: float, rate: float
) -> None:
    jobs = sorted(jobs)
    left = served(ProcessorSharing(capacity, rate), jobs)
    # The same by the definition, from one arrival or departure to the next.
    rest, now, ends = dict[int, float](), 0.0, [math.nan] * len(jobs)
    waiting = [*enumerate(jobs)]
    while waiting or rest:
        speed = min(rate, capacity / len(rest)) if rest else 0.0
        first = min(rest.values()) / speed if rest else math.inf
        step = min(first, waiting[0][1][0] - now if waiting else math.inf)
        rest = {job: amount - step * speed for job, amount in rest.items()}
        now += step
        if waiting and step < first:
            job, (_, amount) = waiting.pop(0)
            rest[job] = amount
        else:
            job = min(rest, key=lambda one: rest[one])
            ends[job] = now
            del rest[job]
    assert left == pytest.approx(ends, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(("capacity", "rate"), [(0, 1), (-1, 1), (1, 0), (math.nan, 1)])
def test_a_resource_needs_a_rate(capacity: float, rate: float) -> None:
    with pytest.raises(ConfigError, match="a capacity and a rate above 0"):
        ProcessorSharing(capacity, rate)
