"""``python -m benchmarks.codecs.updates``: the shares of real updates that codecs keep.

A small federation with label skew trains a perceptron once for each codec, with error
memories on both sides. The benchmark reports the bytes of its last messages, and the
share of the squared norm that they keep: of u, the sum of update and memory, or of the
gap W - X.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.bytes.data import FASHION
from benchmarks.codecs.federation import Sent, messages, tasks
from benchmarks.series import join
from fedcore import payloads
from fedcore.compressors import (
    STC,
    CompressorConfig,
    Cyclic,
    DeadZone,
    LowRank,
    Rotation,
    SemiDiscrete,
    SignL1,
    TopK,
    Uniform,
)
from fedcore.typing import JSON

RESULTS = Path(__file__).parent.parent / "results" / "updates.json"
CONFIGS: dict[str, CompressorConfig] = {
    "semi_discrete .1 bits": SemiDiscrete(bits=0.1),
    "semi_discrete .2 bits": SemiDiscrete(bits=0.2),
    "semi_discrete .4 bits": SemiDiscrete(bits=0.4),
    "low_rank 1": LowRank(rank=1),
    "top_k 1 %": TopK(ratio=0.01),
    "stc 2 %": STC(ratio=0.02),
    "dead_zone 1 %": DeadZone(ratio=0.01),
    "dead_zone 3 %": DeadZone(ratio=0.03),
    "cyclic 10 %": Cyclic(ratio=0.1),
    "uniform 2 bits": Uniform(bits=2),
    "sign_l1": SignL1(),
    "rotation, 1 bit": Rotation(),
}


def held(sent: Sequence[Sent]) -> float:
    """The share of the squared norm that messages hold, the mean of them."""
    shares = [
        1 - np.square(x_D - payloads.decode(message)).sum() / np.square(x_D).sum()
        for x_D, message in sent
    ]
    return float(np.mean(shares))


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table for each model."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.codecs.updates")
    parser.add_argument(
        "--data", type=Path, help=f"folder of {FASHION}, if there is one"
    )
    parser.add_argument("--codecs", nargs="*", choices=CONFIGS, default=[*CONFIGS])
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    given = parser.parse_args(arguments)
    rows: JSON = {}
    for task, model, parts in tasks(given.data):
        table = Table(title=f"{task}, {model.spec.dim:,} values")
        for column in ("codec", "bytes up", "held", "bytes down", "held"):
            table.add_column(column, justify="left" if column == "codec" else "right")
        for name in given.codecs:
            cells = [name]
            row: dict[str, float] = {"values": model.spec.dim}
            for way, sent in messages(model, parts, CONFIGS[name]).items():
                size = float(np.mean([message.nbytes for _, message in sent]))
                share = held(sent)
                cells += [f"{size:,.0f}", f"{share:.2f}"]
                row |= {f"bytes {way}": size, f"held {way}": round(share, 4)}
            rows[f"{task}: {name}"] = row
            table.add_row(*cells)
        Console().print(table)
    if given.save:
        join(RESULTS, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
