"""``python -m tools.costs FILE``: what tests cost, by file and by test.

The file is written by ``python -m pytest -p tools.costs --costs FILE``: a line for each
test, with its seconds and the seconds of CPU that its process and the processes that
it waited for have taken. Seconds of CPU are nearly the same on a busy machine.
"""

import argparse
import json
import resource
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--costs``."""
    parser.addoption("--costs", metavar="FILE", help="append what each test costs")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Notes what one test costs, with what its fixtures do before and after it."""
    began, worked = time.perf_counter(), _cpu()
    yield
    file = item.config.getoption("--costs")
    if file is not None:
        line = {
            "test": item.nodeid,
            "seconds": round(time.perf_counter() - began, 4),
            "cpu": round(_cpu() - worked, 4),
            "marks": sorted({mark.name for mark in item.iter_markers()}),
        }
        with open(file, "a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")


def _cpu() -> float:
    """Returns the seconds of CPU of this process and of those it has waited for."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def table(lines: list[dict[str, float]], key: str, most: int) -> Iterator[str]:
    """Yields rows of seconds, seconds of CPU, tests and what they are about."""
    rows = defaultdict[str, list[dict[str, float]]](list)
    for line in lines:
        name = str(line["test"])
        rows[name if key == "test" else name.partition("::")[0]].append(line)

    def total(name: str, of: str) -> float:
        return sum(line[of] for line in rows[name])

    yield f"{'seconds':>9} {'CPU':>9} {'tests':>6}  by {key}"
    for name in sorted(rows, key=lambda name: -total(name, "seconds"))[:most]:
        seconds, cpu = total(name, "seconds"), total(name, "cpu")
        yield f"{seconds:9.1f} {cpu:9.1f} {len(rows[name]):6}  {name}"


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rows", type=int, default=40)
    arguments = parser.parse_args()
    lines = [json.loads(line) for line in arguments.file.read_text().splitlines()]
    for key in ("file", "test"):
        print(*table(lines, key, arguments.rows), "", sep="\n")
    seconds, cpu = (sum(line[of] for line in lines) for of in ("seconds", "cpu"))
    print(f"{seconds:9.1f} {cpu:9.1f} {len(lines):6}  all")


if __name__ == "__main__":
    main()
