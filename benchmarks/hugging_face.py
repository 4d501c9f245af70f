"""``python -m benchmarks.hugging_face``: LoRA alone, federated and with all text.

The example ``examples/hugging_face`` with several seeds, of the run and of LoRA's
matrix A, one after the other.
"""

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from rich.console import Console

from benchmarks.series import add
from benchmarks.speed.measure import machine
from examples.hugging_face import __main__ as example
from examples.hugging_face import app
from fedcore.typing import JSON

RESULTS = Path(__file__).parent / "results" / "hugging_face.json"
SEEDS = (0, 1, 2)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures all seeds, each in a process of its own, and saves what was found."""
    parser = argparse.ArgumentParser("benchmarks.hugging_face", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--base", type=Path, help="a base that was trained before")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        base, began = given.base or Path(folder) / "base", time.monotonic()
        if given.base is None:
            example.train_base(base)
        trained = time.monotonic() - began
        spawned = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, spawned, max_tasks_per_child=1) as pool:
            tasks = [
                pool.submit(_measured, Path(folder), base, each) for each in given.seeds
            ]
            rows = [task.result() for task in tasks]
    for row in rows:
        Console().print({name: row[name] for name in row if name != "texts"})
    told = {} if given.base else {"base_seconds": trained}
    add(RESULTS, {"machine": machine(), **told, "rows": rows})
    return 0 if all(row["federated"] < row["local"] for row in rows) else 1


def _measured(folder: Path, base: Path, seed: int) -> JSON:
    app.BASE, began, spent = base, time.monotonic(), time.process_time()
    found = example.measure(folder / str(seed), seed)
    took = {"seconds": time.monotonic() - began}
    took["cpu_seconds"] = time.process_time() - spent
    return {"seed": seed, **found._asdict(), **took}


if __name__ == "__main__":
    sys.exit(main())
