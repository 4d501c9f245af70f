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
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from examples.demo.app import LONE_CLASS
from examples.demo.story import APP, CLIENTS, CONFIG, VERSIONS, Story
from fedcore.coordinator.records import Stepped
from fedrun.report import write_report
from latecomer import Results
from latecomer.data import digits
from tools.books import audit
from tools.counting_proxy import CountingProxy
from tools.local import LocalFederation, free_port

LEAST_ACCURACY, LEAST_RECALL = 0.93, 0.80
LONGEST = 170.0  # seconds; far more than it takes


def main() -> int:
    """Plays the demo; 0 if everything is as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("runs/demo"))
    parser.add_argument("--seed", type=int, default=0, help="who is struck")
    given = parser.parse_args()
    shutil.rmtree(given.folder, ignore_errors=True)
    began = time.monotonic()
    console = Console()
    traffic = play(given.folder.resolve(), given.seed, console)
    played = time.monotonic() - began
    ok = settle_accounts(given.folder.resolve(), traffic, played, console)
    page = write_report(given.folder / "run")
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
        story = Story(real, proxy, seed)
        server = real.server()
        story.begin()
        with Live(console=console, refresh_per_second=4) as live:
            while server.is_running or not story.everything_happened:
                events = real.events()
                story.look(sum(e["event"] == "stepped" for e in events))
                if console.is_terminal:
                    live.update(picture(events, story, proxy))
                story.check_health()
                if time.monotonic() > story.began + LONGEST:
                    raise SystemExit(
                        f"the demo does not come to an end:\n{server.tail()}"
                    )
                time.sleep(0.1)
        for child in real.children.values():
            status = child.wait()
            if status:
                raise SystemExit(f"{child.name} ended with {status}:\n{child.tail()}")
        if not console.is_terminal:
            console.print("\n".join(story.diary))
        return dict(proxy.sent)


def picture(events: list[dict[str, Any]], story: Story, proxy: CountingProxy) -> Panel:
    """The federation as it is now."""
    steps = sum(event["event"] == "stepped" for event in events)
    measured = [event for event in events if event["event"] == "evaluated"]
    accuracy = measured[-1]["values"]["accuracy"] if measured else float("nan")
    top = Table.grid(padding=(0, 2))
    top.add_row(
        f"version {steps} of {VERSIONS}",
        ProgressBar(total=VERSIONS, completed=steps, width=30),
        f"accuracy {accuracy:.3f}",
        f"{sum(proxy.sent.values()) / 1000:.0f} kB on the network",
    )
    clients = Table(box=None, header_style="dim")
    for column in ("client", "does", "updates", "late by", "weight"):
        clients.add_column(column)
    for row in client_rows(events):
        clients.add_row(*row)
    diary = Text("\n".join(story.diary[-8:]), style="dim")
    return Panel(Group(top, clients, diary), title="a federation that loses nothing")


def client_rows(events: list[dict[str, Any]]) -> list[list[str]]:
    """Each client's doings, as the server tells them."""
    rows = {f"client-{i}": ["joining", "0", "", ""] for i in range(CLIENTS)}
    for event in events:
        row = rows.get(event.get("client", ""))
        if row is None:
            continue
        match event["event"]:
            case "leased":
                row[0] = "[green]trains[/]"
            case "lost":
                row[0] = "[red]lost[/]"
            case "decided":
                row[0], row[1] = "[dim]delivered[/]", str(int(row[1]) + 1)
                row[2], row[3] = str(event["staleness"]), f"{event['weight']:.2f}"
    return [[name, *row] for name, row in rows.items()]


def settle_accounts(
    folder: Path, traffic: dict[str, int], played: float, console: Console
) -> bool:
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
    rows.append(("seconds that it took", f"{played:.0f}", played < 90))
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
