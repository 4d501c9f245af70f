"""LoRA above a byte-level GPT-2, federated, without a hub: a minute or two on a CPU.

A tiny GPT-2 learns from the public part, the modules of Python's standard library that
stand in no package. Eight clients then adapt it, each to one package, in three ways:
alone, as a federation with the default recipe, and with all their text in one place.
"""

import argparse
import logging
import os
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is looked for on a network

import numpy as np
import torch
import transformers
from rich.console import Console
from rich.table import Table

import latecomer
from examples.hugging_face import app
from examples.hugging_face.text import CLIENTS, rows, split
from fedview.export import export_adapter
from fedview.report import write_report
from latecomer import Results

BASE_STEPS, BASE_BATCH = 300, 16
TASKS = 6  # of each client
CLIENT = {"kind": "local_adam", "lr": 3e-3, "steps": 10, "batch": 8}
# So few updates are made that a quarter of the values travels, and not a twentieth.
CODEC = {"kind": "dead_zone", "ratio": 0.25}
FEDERATED = {
    "kind": "latecomer",
    "buffer": 4,
    "client": CLIENT,
    "uplink": {"kind": "error_feedback", "inner": CODEC},
    "downlink": CODEC,
}


class Found(NamedTuple):
    """What came of one seed; bits per byte on the test text of all packages."""

    base: float
    local: float  # the mean over the clients' adapters
    federated: float
    central: float
    local_own: float  # each adapter on its own package's test text
    federated_own: float  # the one federated adapter on the same
    update_bytes: float
    adapter_bytes: int  # of what is trained, as float32
    both_bytes: int  # with A
    model_bytes: int  # of the whole model
    texts: dict[int, str]


def main() -> int:
    """Runs the example; 0 if the federation is better than local adapters."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--out", type=Path, default=Path("runs/hugging_face"))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    shutil.rmtree(given.out, ignore_errors=True)
    logging.getLogger("fedsim").setLevel(logging.ERROR)  # adapters alone have no tests
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    began, console = time.monotonic(), Console()
    app.BASE = given.out / "base"
    train_base(app.BASE)
    console.print(f"{time.monotonic() - began:.0f} s: the base has learnt")
    found = measure(given.out, given.seed)
    show(found, console)
    run = given.out / "federated"
    console.print(export_adapter(run, given.out / "adapter", "last", None))
    console.print(f"report: {write_report(run)}", soft_wrap=True)
    console.print(f"{time.monotonic() - began:.0f} s in all")
    return 0 if found.federated < found.local else 1


def train_base(folder: Path) -> None:
    """Trains the base on the public part, and saves it."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the model is small
    model = app.fresh()
    optimizer = torch.optim.AdamW(model.parameters())
    falling = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, BASE_STEPS)
    public = torch.from_numpy(rows("").astype(np.int64))
    for _ in range(BASE_STEPS):
        batch = public[torch.randint(len(public), (BASE_BATCH,))]
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        falling.step()
    model.save_pretrained(folder)


def measure(folder: Path, seed: int) -> Found:
    """Trains adapters in the three ways, and evaluates them."""
    workload = replace(app.workload, seed=seed)
    model = workload.flat()
    own = {name: split(name)[1] for name in CLIENTS}
    every = workload.test_data()

    def bits(results: Results, which: str, data: Any) -> float:
        w_D = model.spec.flatten(
            {t.name: results.model(which)[t.name] for t in model.spec.tensors}
        )
        return model.evaluate(w_D, data)[0]["bits_per_byte"]

    def alone(name: str, tasks: int) -> Results:
        config = {
            "seed": seed,
            "algorithm": {"kind": "fed_avg", "buffer": 1, "client": CLIENT},
            "evaluate": {"every_versions": tasks},
            "stop": {"versions": tasks},
            "simulate": {"clients": 1, "args": {"package": name}},
        }
        unseen = replace(workload, test_data=None)
        return latecomer.run(config, unseen, folder=folder / "alone" / name)

    updates = TASKS * len(CLIENTS)
    config = {
        "seed": seed,
        "algorithm": FEDERATED,
        "evaluate": {"every_versions": 4},
        "stop": {"versions": updates // 4},
        "simulate": {"clients": len(CLIENTS)},
    }
    federated = latecomer.run(config, workload, folder=folder / "federated")
    local = {name: alone(name, TASKS) for name in CLIENTS}
    central = alone("all", updates)
    trained, rest = model.spec.dim, model.rest()
    frozen = sum(each.size for each in rest.frozen.values())
    return Found(
        base=bits(federated, "initial", every),
        local=float(np.mean([bits(local[name], "last", every) for name in CLIENTS])),
        federated=bits(federated, "last", every),
        central=bits(central, "last", every),
        local_own=float(np.mean([bits(local[n], "last", own[n]) for n in CLIENTS])),
        federated_own=float(
            np.mean([bits(federated, "last", own[n]) for n in CLIENTS])
        ),
        update_bytes=float(np.mean(federated.updates["bytes"])),
        adapter_bytes=4 * trained,
        both_bytes=4 * (trained + frozen),
        model_bytes=4 * sum(each.numel() for each in app.fresh().parameters()),
        texts=dict(texts_of(federated)),
    )


def texts_of(results: Results) -> dict[int, str]:
    """What the model wrote at each version that was evaluated."""
    from fedcore.coordinator.events import Evaluated

    return {each.version: each.text for each in results.of(Evaluated)}


def show(found: Found, console: Console) -> None:
    """Prints the figures, and two samples."""
    table = Table("bits per byte", "all packages", "own package")
    table.add_row("the base alone", f"{found.base:.3f}", "")
    for way in ("local", "federated", "central"):
        own = getattr(found, f"{way}_own", None)
        shown = "" if own is None else f"{own:.3f}"
        table.add_row(way, f"{getattr(found, way):.3f}", shown)
    console.print(table)
    console.print(
        f"bytes of an update: {found.update_bytes:,.0f}; dense: "
        f"{found.adapter_bytes:,} for B alone, {found.both_bytes:,} for A and B, "
        f"{found.model_bytes:,} for the whole model"
    )
    for version in (min(found.texts), max(found.texts)):
        console.print(
            f"version {version} writes: {found.texts[version]!a}", markup=False
        )


if __name__ == "__main__":
    sys.exit(main())
