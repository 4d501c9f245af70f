"""The goals of the simulator, and whether it reaches them."""

from collections.abc import Callable, Iterator

from benchmarks.codecs.targets import Target
from benchmarks.simulation import tasks
from benchmarks.simulation.report import Row, Rows, faster


def goals(task: str, rows: Rows) -> list[Target]:
    """Those of a task whose rows are there."""
    found = {name: row for name, row in rows.items() if isinstance(row, Row)}
    everybody = tasks.TASKS[task].contenders
    first = tasks.OURS if tasks.OURS in everybody else tasks.TWO
    needed = {first} if first in everybody else set(everybody)
    return list(GOALS[task](found)) if needed <= set(found) else []


Found = dict[str, Row]


def _beats(found: Found, name: str, bound: float) -> Iterator[Target]:
    if name in found:
        ratio = faster(found[tasks.OURS], found[name]).median
        yield Target(f"times as fast as {name}", ratio, bound, at_least=True)


def _task_a(found: Found) -> Iterator[Target]:
    us = found[tasks.OURS]
    yield Target("A, updates/s", us.rate.median, 10_000, at_least=True)
    yield from _beats(found, tasks.PFL, 10)
    yield from _beats(found, tasks.PFL_2, 10)
    yield from _beats(found, tasks.FLOWER, 200)
    yield Target("A, seconds until the first round has ended", us.start.median, 2)


def _task_b(found: Found) -> Iterator[Target]:
    us = found[tasks.OURS]
    yield Target("B, updates/s", us.rate.median, 30_000, at_least=True)
    yield from _beats(found, tasks.PFL, 30)
    yield from _beats(found, tasks.PFL_2, 30)
    yield from _beats(found, tasks.FLOWER, 700)
    yield from _beats(found, tasks.TORCH, 0.6)
    yield from _beats(found, tasks.NUMPY, 0.6)
    yield Target("B, MB", us.megabytes.median, 400)


def _fashion(found: Found) -> Iterator[Target]:
    yield from _beats(found, tasks.LOOP, 1.5)
    yield from _beats(found, tasks.PFL, 3)
    yield from _beats(found, tasks.PFL_2, 3)


def _processes(found: Found) -> Iterator[Target]:
    two = found[tasks.TWO]
    if tasks.ONE in found:
        ratio = faster(two, found[tasks.ONE]).median
        yield Target("times as fast as 1 process", ratio, 1.7, at_least=True)
    if tasks.RAY in found:
        share = 1 / faster(two, found[tasks.RAY]).median
        yield Target(f"rate, {tasks.RAY}, to 2 processes", share, 0.8, at_least=True)


def _population(found: Found) -> Iterator[Target]:
    small, *_, large = found
    dearer = faster(found[small], found[large]).median
    yield Target(f"cost of an update, {large} to {small}", dearer, 1.15)
    yield Target(f"{large}, MB", found[large].megabytes.median, 1500)


def _tiny(found: Found) -> Iterator[Target]:
    large, tiny = found
    dearer = faster(found[large], found[tiny]).median
    yield Target("cost of an update with one tiny client, to without", dearer, 1.2)


def _asynchronous(found: Found) -> Iterator[Target]:
    *_, last = found
    for name in list(found)[:2]:
        share = faster(found[last], found[name]).median
        yield Target(f"rate, {last}, to {name}", share, 0.5, at_least=True)


GOALS: dict[str, Callable[[Found], Iterator[Target]]] = {
    "A": _task_a,
    "B": _task_b,
    "fashion": _fashion,
    "processes": _processes,
    "population": _population,
    "tiny": _tiny,
    "asynchronous": _asynchronous,
}
