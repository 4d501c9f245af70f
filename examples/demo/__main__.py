"""A federation that loses nothing: ``make demo``.

A real server and twelve real clients on real data, none of it shared. One client alone
holds a class and is always late. Clients are killed, fall asleep and come back; the
network breaks; the server is killed in the middle and goes on where it was. At the end
three independent accounts of every update must agree, and the simulator, told only who
delivered when, must arrive at the same model bit for bit.
"""

import argparse
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from examples.demo.app import LONE_CLASS
from examples.demo.story import APP, CLIENTS, CONFIG, Story
from examples.demo.view import Lines, Picture, Watch
from fedcore.coordinator.events import Stepped
from fedview.report import write_report
from latecomer import Results
from latecomer.data import digits
from tools.books import audit
from tools.counting_proxy import CountingProxy
from tools.local import LocalFederation, free_port

LEAST_ACCURACY, LEAST_RECALL = 0.93, 0.80
LONGEST = 1200.0  # seconds, of one command after the federation


def main() -> int:
    """Plays the demo; 0 if everything is as it must be, however long it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--out", type=Path, default=Path("runs/demo"))
    parser.add_argument("--seed", type=int, default=0, help="who is struck")
    given = parser.parse_args()
    shutil.rmtree(given.out, ignore_errors=True)
    began = time.monotonic()
    console = Console()
    traffic = play(given.out.resolve(), given.seed, console)
    console.print(f"the federation took {time.monotonic() - began:.0f} s")
    ok = settle_accounts(given.out.resolve(), traffic, console)
    page = write_report(given.out / "run")
    console.print(f"report: {page}", soft_wrap=True)
    console.print(f"{time.monotonic() - began:.0f} s in all")
    return 0 if ok else 1


def play(folder: Path, seed: int, console: Console) -> dict[str, int]:
    """Runs the federation to its end; returns the bytes that crossed the network."""
    port = free_port()
    config = {**CONFIG, "seed": seed}
    config["server"] = {**CONFIG["server"], "listen": f"127.0.0.1:{port}"}
    real = LocalFederation(folder, config, app=f"{APP}:workload")
    with real, CountingProxy(f"127.0.0.1:{port}") as proxy:
        story, watch = Story(real, proxy, seed), Watch()
        server = real.server()
        story.begin()
        with Picture(console) if console.is_terminal else Lines(console) as view:
            while server.is_running or not story.everything_happened:
                events = real.events()
                story.look(sum(e["event"] == "stepped" for e in events))
                view.show(events, story.diary, sum(proxy.sent.values()))
                story.check_health()
                if watch.is_stuck(len(events) + len(story.diary)):
                    raise SystemExit(f"nothing happens any more:\n{server.tail()}")
                time.sleep(0.1)
        for child in real.children.values():
            status = child.wait(LONGEST)
            if status:
                raise SystemExit(f"{child.name} ended with {status}:\n{child.tail()}")
        return dict(proxy.sent)


def settle_accounts(folder: Path, traffic: dict[str, int], console: Console) -> bool:
    """Prints the verdict, and says whether all is well."""
    run, results = folder / "run", Results(folder / "run")
    books = audit(run, [folder / f"state-client-{i}" for i in range(CLIENTS)])
    accuracy, recall = score(results.model("last"))
    late = late_share(results)
    rows = books.rows()
    rows.append(
        (
            "the simulator, given the order of arrival: the same model",
            *simulated(folder, run),
        )
    )
    rows.append(("test accuracy", f"{accuracy:.3f}", accuracy >= LEAST_ACCURACY))
    rows.append(
        (
            f"recall of class {LONE_CLASS}, which only the late client has",
            f"{recall:.2f} ({late:.1%} of the updates are its own)",
            recall >= LEAST_RECALL,
        )
    )
    rows += traffic_rows(results, traffic)
    table = Table(title="The verdict")
    table.add_column("")
    table.add_column("figure")
    table.add_column("")
    for name, figure, right in rows:
        table.add_row(name, figure, "[green]ok[/]" if right else "[red]WRONG[/]")
    console.print(table)
    return all(right for _, _, right in rows)


def score(model: dict[str, Any]) -> tuple[float, float]:
    """Accuracy, and recall of the class that one client alone holds."""
    x, y = digits("test")
    hidden = np.maximum(x @ model["0.weight"].T + model["0.bias"], 0)
    found = (hidden @ model["2.weight"].T + model["2.bias"]).argmax(axis=1)
    alone = y == LONE_CLASS
    return float((found == y).mean()), float((found[alone] == LONE_CLASS).mean())


def late_share(results: Results) -> float:
    """The share of the updates that the late client brought."""
    clients = results.updates["client"]
    return clients.count("client-0") / len(clients)


def simulated(folder: Path, run: Path) -> tuple[str, bool]:
    """The simulator is told who delivered when, and trains everything anew."""
    again = folder / "simulated"
    real = LocalFederation(folder, {"server": {"journal": "run"}}, app="")
    done = real.command(
        *("fedsim", "run", str(folder / "federation.yaml"), "--no-report"),
        *("-o", str(again), "--set", f"simulate.arrivals={run}"),
        timeout=LONGEST,
    )
    if done.returncode:
        return done.stderr.strip().splitlines()[-1], False
    theirs, ours = (r.of(Stepped) for r in (Results(again), Results(run)))
    same = [a.digest == b.digest for a, b in zip(theirs, ours, strict=False)]
    return f"{sum(same)} of {len(ours)} versions", all(same) and len(same) == len(ours)


def traffic_rows(
    results: Results, traffic: dict[str, int]
) -> list[tuple[str, str, bool]]:
    """Bytes that the proxy counted, against an exchange of dense float32 models."""
    dense = 4 * results.dim
    updates = len(results.updates["client"])
    clients = [c for c in results.tasks["client"] if c.startswith("client-")]
    up, down = traffic["up"], traffic["down"]
    ratio = dense * (updates + len(clients)) / (up + down)
    return [
        (
            "bytes on the network, up and down",
            f"{up:,} and {down:,}: {(up + down) / updates:.0f} an update",
            True,
        ),
        (
            "of dense float32 models alone it would have been",
            f"{dense * (updates + len(clients)):,}: {ratio:.1f} times as much",
            ratio > 1,
        ),
    ]


if __name__ == "__main__":
    sys.exit(main())
