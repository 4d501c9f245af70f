"""``python -m benchmarks.codecs``: bytes, error and speed of every compressor.

Times are in passes. One pass is an addition to the same vector in place; passes and
codec are measured in turn, as processor time of one core. The child process that
measures uses one thread for arithmetic.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.basis import stamp
from benchmarks.codecs import report, sparse
from benchmarks.codecs.codec import Measured, measure
from benchmarks.codecs.ours import CONFIGS, TOP_K, is_exact, our_codec
from benchmarks.codecs.peers import PEERS, peer
from benchmarks.codecs.targets import Target, speed_targets
from benchmarks.codecs.vectors import SHAPES, draw
from benchmarks.speed.measure import machine
from fedcore import kernels
from fedcore.typing import JSON, Vector

RESULTS = Path(__file__).parent.parent / "results" / "codecs.json"
ONE_THREAD = {
    f"{library}_NUM_THREADS": "1"
    for library in ("OMP", "OPENBLAS", "MKL", "BLIS", "VECLIB_MAXIMUM")
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures in a process that has one thread."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    options = _options(words)
    if any(os.environ.get(name) != one for name, one in ONE_THREAD.items()):
        command = [sys.executable, "-m", "benchmarks.codecs", *words]
        return subprocess.run(
            command, env=os.environ | ONE_THREAD, check=False
        ).returncode
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 150
    told = run(options, console)
    if options.save:
        RESULTS.parent.mkdir(exist_ok=True)
        told |= stamp()
        RESULTS.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    return 0


def run(options: argparse.Namespace, console: Console) -> JSON:
    """Measures everything that was asked for; shows it, and returns it."""
    for name in PEERS:
        peer(name)
    gc.collect()
    gc.freeze()  # what was imported need not be looked through before each measurement
    try:
        return _measured(options, console)
    finally:
        gc.unfreeze()


def _measured(options: argparse.Namespace, console: Console) -> JSON:
    tables: dict[str, report.Rows] = {}
    targets: list[Target] = []
    selections: dict[str, Any] = {}
    for dim in options.values:
        speeds = []
        for shape in options.shapes:
            delta_D, title = draw(shape, dim), f"{shape}, {dim:,} values"
            rows = tables[title] = _rows(delta_D, options, console)
            report.show(console, title, rows)
            if options.markdown:
                print(*report.markdown(rows), sep="\n")
            speeds.append({n: m for n, m in rows.items() if m and n in CONFIGS})
            if TOP_K in rows:
                exact = float(is_exact(delta_D))
                name = f"{TOP_K} of {title}, exactly the set of a full sort"
                targets.append(Target(name, exact, 1, at_least=True))
            if dim == max(options.values):
                found = sparse.selections(delta_D, options.repetitions)
                for name, times in found.items():
                    report.show_times(console, f"milliseconds, as {name}", times)
                    selections[f"{title}: {name}"] = report.times_json(times)
                targets += sparse.selection_targets(found, title)
        targets += speed_targets(speeds, dim)
    added = sparse.additions(options.values, options.repetitions)
    targets += sparse.addition_targets(added)
    report.show_times(console, "microseconds of adding", report.by_size(added))
    report.verdicts(console, targets)
    return {
        "machine": machine(),
        "kernels": kernels.in_use(),
        "repetitions": options.repetitions,
        "vectors": report.all_json(tables),
        "selecting, ms": selections,
        "adding, us": report.times_json(report.by_size(added)),
        "targets": [target.to_json() for target in targets],
    }


def _rows(
    delta_D: Vector, options: argparse.Namespace, console: Console
) -> report.Rows:
    rows: dict[str, Measured | None] = {}
    for name in options.codecs or CONFIGS:
        with console.status(name):
            codec = our_codec(name, len(delta_D))
            rows[name] = measure(codec, delta_D, options.repetitions)
    for name in [] if options.codecs else PEERS:
        with console.status(name):
            theirs = peer(name)
            rows[name] = (
                measure(theirs, delta_D, options.repetitions) if theirs else None
            )
    return rows


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.codecs")
    parser.add_argument(
        "--values",
        nargs="*",
        type=lambda text: int(float(text)),
        default=[10**6, 10**7],
        help="sizes of the vectors; 1e6 1e7 if not said",
    )
    parser.add_argument("--shapes", nargs="*", choices=SHAPES, default=[*SHAPES])
    parser.add_argument(
        "--codecs", nargs="*", choices=CONFIGS, help="all, and peers, if not said"
    )
    parser.add_argument(
        "--repetitions", type=int, default=7, help="so many rounds; 7 if not said"
    )
    parser.add_argument("--markdown", action="store_true", help="tables for the docs")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
