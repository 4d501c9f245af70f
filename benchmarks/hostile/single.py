"""Figures without honest clients: costly messages, and thousands of idle clients."""

import csv
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.hostile.checkout import Checkout
from benchmarks.hostile.dear import DEAR
from benchmarks.hostile.scenarios import ENDLESS
from benchmarks.speed.processes import cpu_seconds, resident_megabytes
from benchmarks.speed.server import save_zeros
from fedcore.typing import JSON, Seconds
from tools.local import LocalFederation

LARGE = 10_000_000
UPLINKS = {
    "low_rank": {"kind": "low_rank", "rank": 4},
    "semi_discrete": {"kind": "semi_discrete"},
    "rotated": {"kind": "rotation"},
    "seeded": {"kind": "random_k", "ratio": 0.001},
    "sparse": {"kind": "top_k", "ratio": 0.001},
    "dense": {"kind": "identity"},
}
OTHER = {"kind": "top_k", "ratio": 0.001}


def serve(
    stack: ExitStack, checkout: Checkout, dim: int, **algorithm: Any
) -> LocalFederation:
    """A server without honest clients."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "run"
    config = {
        "model": "model.safetensors",
        "server": {"listen": "127.0.0.1:0", "journal": "run"},
        "algorithm": {"kind": "fed_buff", "staleness_limit": ENDLESS, **algorithm},
    }
    federation = LocalFederation(
        folder, config, app="", environment=checkout.environment
    )
    stack.enter_context(federation)
    save_zeros(folder / "model.safetensors", dim)
    federation.server("--no-evaluator")
    return federation


def dearest(checkout: Checkout, dim: int = LARGE) -> JSON:
    """What a message costs, where its format is the uplink's and where it is not."""
    found: dict[str, JSON] = {}
    for name, make in DEAR.items():
        found[name] = {"bytes": len(make(dim))}
        for title, uplink in (("its uplink", UPLINKS[name]), ("another", OTHER)):
            with ExitStack() as stack:
                federation = serve(stack, checkout, dim, uplink=uplink, buffer=1000)
                found[name][title] = _cost(stack, checkout, federation, name, dim)
    return found


def _cost(
    stack: ExitStack,
    checkout: Checkout,
    federation: LocalFederation,
    name: str,
    dim: int,
) -> JSON:
    words = [federation.address, "--dim", str(dim), "--message", name]
    process = federation.children["server"].process
    assert process is not None
    helper = stack.enter_context(
        checkout.helper(federation.folder, "benchmarks.hostile.one", *words)
    )
    helper.ask("once")  # the first of its kind makes tables, and counts for nothing
    cpu = cpu_seconds(process.pid)
    told = helper.ask("once")
    return {**told, "server CPU": round(cpu_seconds(process.pid) - cpu, 3)}


def waiting(checkout: Checkout, clients: int = 5000, seconds: Seconds = 20.0) -> JSON:
    """Memory and processor time of a server on which clients wait."""
    with ExitStack() as stack:
        federation = serve(stack, checkout, 10_000, min_clients=ENDLESS)
        process = federation.children["server"].process
        assert process is not None
        before = resident_megabytes(process.pid)
        words = [federation.address, "--dim", "10000", "--clients", str(clients)]
        began = time.monotonic()
        crowd = stack.enter_context(
            checkout.helper(federation.folder, "benchmarks.hostile.idle", *words)
        )
        joined = time.monotonic() - began
        time.sleep(5.0)
        cpu, began = cpu_seconds(process.pid), time.monotonic()
        time.sleep(seconds)
        used = (cpu_seconds(process.pid) - cpu) / (time.monotonic() - began)
        memory = resident_megabytes(process.pid)
        told = crowd.ask("how is it going")
    return {
        "clients": clients,
        "megabytes without": round(before, 1),
        "megabytes": round(memory, 1),
        "kilobytes a client": round(1e3 * (memory - before) / clients, 1),
        "CPU a second": round(used, 3),
        "seconds until all had joined": round(joined, 1),
        **told,
    }


def texts(checkout: Checkout) -> JSON:
    """Where characters that move a cursor arrive, and cells that are formulas."""
    with ExitStack() as stack:
        federation = serve(stack, checkout, 1000)
        _attack_once(stack, checkout, federation, "control", 3.0)
        run, address = str(federation.run), federation.address
        table = federation.command("fedserver", "status", address).stdout
        federation.children["server"].stop()
        shown = {
            "fedserver status": table,
            "fedserver journal show": federation.command(
                "fedserver", "journal", "show", run
            ).stdout,
            "server.log": federation.children["server"].log.read_text(),
        }
        federation.command("fedserver", "journal", "export", run, "-o", "tables")
        cells = [
            cell
            for path in (federation.folder / "tables").glob("*.csv")
            for row in csv.reader(path.open(newline=""))
            for cell in row
        ]
        return {
            **{name: _control_characters(text) for name, text in shown.items()},
            "cells that are formulas": sum(map(_is_formula, cells)),
        }


def _control_characters(text: str) -> int:
    return sum((ord(c) < 32 and c not in "\n") or 127 <= ord(c) < 160 for c in text)


def _is_formula(cell: str) -> bool:
    if cell[:1] not in ("=", "+", "-", "@"):
        return False
    try:
        float(cell)
    except ValueError:
        return True
    return False


def page(checkout: Checkout, patience: Seconds = 300.0) -> JSON:
    """How long the report of a run takes to write after one call with many metrics."""
    with ExitStack() as stack:
        federation = serve(stack, checkout, 1000)
        _attack_once(stack, checkout, federation, "keys", 0.4)
        run = str(federation.run)
        federation.children["server"].stop()
        began = time.monotonic()
        try:
            done = subprocess.run(
                [sys.executable, "-m", "fedserver", "report", run],
                cwd=federation.folder,
                env={**os.environ, **federation.environment},
                capture_output=True,
                timeout=patience,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"seconds": patience, "written": False}
        return {
            "seconds": round(time.monotonic() - began, 2),
            "written": done.returncode == 0,
        }


def _attack_once(
    stack: ExitStack,
    checkout: Checkout,
    federation: LocalFederation,
    attack: str,
    seconds: Seconds,
) -> None:
    words = [federation.address, "--dim", "1000"]
    peer = stack.enter_context(
        checkout.helper(federation.folder, "benchmarks.hostile.peer", *words)
    )
    peer.ask(f"go {attack}")
    time.sleep(seconds)
    peer.ask("halt")


SINGLE: dict[str, Callable[[Checkout], JSON]] = {
    "dearest": dearest,
    "waiting": waiting,
    "texts": texts,
    "page": page,
}
