"""The model check for as long as one likes: ``python -m tests.protocol.soak``.

Each seed is a setting and a schedule of its own. A failing one is cut down to the
few steps that matter and told as a story; the exit status is then 1.
"""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tests.protocol.schedules import LENGTH, drawn, failure, shrink, story

AT_ONCE = 50


def soak(first: int, count: int) -> list[tuple[int, str]]:
    """The seeds that fail, with their stories."""
    failing = []
    for seed in range(first, first + count):
        setting, schedule = drawn(seed)
        if failure(setting, schedule) is not None:
            short = shrink(schedule, lambda s: failure(setting, s) is not None)  # noqa: B023
            failing.append((seed, story(setting, short)))
    return failing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=float, default=1e6)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    seeds = int(given.events / LENGTH) + 1
    starts = range(given.seed, given.seed + seeds, AT_ONCE)
    began, done, failed = time.monotonic(), 0, 0
    with ProcessPoolExecutor(given.jobs) as pool:
        for found in pool.map(soak, starts, [AT_ONCE] * len(starts)):
            done += AT_ONCE
            for seed, told in found:
                failed += 1
                print(f"seed {seed}\n{told}\n", flush=True)
            if done % 1000 < AT_ONCE:
                print(f"{done * LENGTH:,} events, {failed} violations", flush=True)
    seconds = time.monotonic() - began
    print(
        f"{done * LENGTH:,} events in {done:,} schedules (seeds {given.seed} to "
        f"{given.seed + done - 1}), {seconds:.0f} s: {failed} violations"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
