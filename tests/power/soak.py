"""Power cuts for as long as one likes: ``python -m tests.power.soak --cuts 1e5``.

Every recording is a story with a seed of its own; after each of its operations the
power is cut, and what may then be on the disk is given to the real code. The exit
status is 1 if anything that was promised is lost or doubled, or if a start fails.
"""

import argparse
import json
import logging
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import count, islice
from pathlib import Path

from benchmarks.basis import stamp
from tests.power.cuts import Cut, Outcome, recorded
from tests.power.disk import EVERYTHING
from tests.power.drive import STORIES

CUTS = 500  # of one recording


def soak(story: str, seed: int) -> Outcome:
    """Records a story and cuts the power."""
    logging.disable(logging.WARNING)  # of damage that is cut off
    try:
        with recorded(story, seed) as recording:
            return recording.cut(CUTS / len(recording.operations), seed)
    except AssertionError as error:  # of the recorded process itself
        cut = Cut(0, "the story", EVERYTHING, str(error))
        return Outcome(violations=[cut])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuts", type=float, default=1e5)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--save", type=Path, help="write the counts into a file")
    given = parser.parse_args()
    began, done, failed = time.monotonic(), 0, 0
    after: Counter[str] = Counter()
    recordings = ((story, seed) for seed in count(given.seed) for story in STORIES)
    with ProcessPoolExecutor(given.jobs) as pool:
        while done < given.cuts:
            some = list(islice(recordings, len(STORIES)))
            for (story, seed), outcome in zip(
                some, pool.map(soak, *zip(*some, strict=True)), strict=True
            ):
                done += outcome.cuts
                after += outcome.after
                for cut in outcome.violations:
                    failed += 1
                    print(f"{story}, seed {seed}: {cut}", flush=True)
            print(f"{done:,} cuts, {failed} broken promises", flush=True)
    kinds = ", ".join(f"{n:,} after {kind}" for kind, n in after.most_common())
    seconds = time.monotonic() - began
    print(f"{done:,} cuts in {seconds:.0f} s ({kinds}): {failed} broken promises")
    if given.save:
        told = {
            "cuts": done,
            "broken": failed,
            "seconds": round(seconds),
            "jobs": given.jobs,
            "first seed": given.seed,
            "after": dict(after.most_common()),
        }
        given.save.write_text(
            json.dumps(told | stamp(), indent=1) + "\n", encoding="utf-8"
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
