"""A Flower app on a SuperLink and SuperNodes, which are killed."""

import ast
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

from benchmarks.flower.deployment import LIMIT, NODES, STEADY, TARGET, Steady
from benchmarks.flower.processes import Commands, copied, end
from benchmarks.flower.watched import Memory
from fedcore.typing import JSON, Seconds
from tools.counting_proxy import CountingProxy
from tools.local import free_port, wait_until

AFTER = 2  # rounds after the kill of a node
BEFORE = 2  # rounds before the kill of the SuperLink
AT_WORK: Seconds = 2.0  # after a round was told, until the next one's tasks are out
WATCHED: Seconds = 90.0  # after the SuperLink was started again
KINDS = {
    "flower-superlink": "SuperLink",
    "flower-superexec": "SuperExec",
    "flwr-serverapp": "ServerApp",
}
AGGREGATED = re.compile(r"aggregate_train: Received (\d+) results and (\d+) failures")
EVALUATED = re.compile(r"Global evaluation.*?MetricRecord: (\{.*?\})", re.DOTALL)
DATABASE = ("--database", "state.db")


@dataclass
class Deployment:
    """A SuperLink with its SuperNodes and a run, with a proxy between them."""

    commands: Commands
    port: int
    proxy: CountingProxy
    link: Popen[bytes]
    nodes: list[Popen[bytes]]
    run: Popen[bytes]
    memory: Memory
    began: float

    @property
    def said(self) -> str:
        """What ``flwr run --stream`` has printed."""
        return (self.commands.folder / "run.log").read_text("utf-8", "replace")

    def when(
        self, pattern: re.Pattern[str], count: int, limit: Seconds = LIMIT
    ) -> float:
        """Waits until the run has told something so often; returns the time.

        Raises:
            AssertionError: it has not, within the limit.
        """
        what = f"{pattern.pattern}: {count} times in run.log"
        return wait_until(lambda: len(pattern.findall(self.said)) >= count, what, limit)

    def accuracies(self) -> list[float]:
        """Returns the accuracy of each version that was evaluated so far, in order."""
        told = EVALUATED.findall(self.said)
        return [ast.literal_eval(each)["accuracy"] for each in told]

    def status(self) -> str:
        """What ``flwr ls`` tells of the run; or why it tells nothing."""
        try:
            said, _ = self.commands.run(["flwr", "ls", "link", "--format", "json"])
            return str(json.loads(said)["runs"][0]["status"])
        except (RuntimeError, LookupError, ValueError) as error:
            return f"unknown: {str(error)[-200:]}"


def measure(app: str, folder: Path) -> JSON:
    """Returns what FedAvg took, and what came of it when processes were killed."""
    with deployment(app, folder / "node", STEADY + AFTER) as it:
        it.when(AGGREGATED, 1)
        first = time.monotonic()
        shown = it.when(EVALUATED, 1)
        reached = wait_until(
            lambda: max(it.accuracies()) >= TARGET,
            f"an accuracy of {TARGET} in run.log",
            LIMIT,
        )
        spent = sum(it.proxy.sent.values())
        last = it.when(AGGREGATED, STEADY)
        it.when(EVALUATED, STEADY)
        found = [int(results) for results, _ in AGGREGATED.findall(it.said)]
        steady = Steady(
            first_result=shown - it.began,
            updates=sum(found[:STEADY]),
            per_second=sum(found[1:STEADY]) / (last - first),
            up=it.proxy.sent["up"],
            down=it.proxy.sent["down"],
            memory=it.memory.most,
            accuracy=it.accuracies()[-1],
            reached=reached - it.began,
            spent=spent,
        )
        node = killed_node(it)
    with deployment(app, folder / "server", STEADY + AFTER) as it:
        server = killed_server(it)
    return {**steady.to_json(), "node killed": node, "server killed": server}


@contextmanager
def deployment(app: str, folder: Path, rounds: int) -> Iterator[Deployment]:
    """Starts a run of so many rounds, with what Flower's options offer to keep it."""
    folder.mkdir(parents=True)
    copied(app, folder)
    port = free_port()
    began = time.monotonic()
    with Commands(folder) as commands, CountingProxy(f"127.0.0.1:{port}") as proxy:
        link = commands.start_super_link(port, *DATABASE)
        with Memory(link.pid, KINDS) as memory:
            nodes = [start_node(commands, proxy, index) for index in range(NODES)]
            words = ["flwr", "run", app, "link", "--stream", "--run-config"]
            config = f"fraction-evaluate=0.0 num-server-rounds={rounds}"
            run = commands.start([*words, config], "run.log")
            yield Deployment(commands, port, proxy, link, nodes, run, memory, began)


def start_node(commands: Commands, proxy: CountingProxy, index: int) -> Popen[bytes]:
    """Starts a SuperNode with its part of the data."""
    words = ["flower-supernode", "--insecure", "--superlink", proxy.address]
    words += ["--port", str(free_port()), "--node-config"]
    words += [f"partition-id={index} num-partitions={NODES}"]
    return commands.start(words, f"node-{index}.log")


def killed_node(it: Deployment) -> JSON:
    """Kills a SuperNode while it has a task, and looks at the rounds that follow."""
    time.sleep(AT_WORK)
    end(it.nodes[-1])
    last, waited = time.monotonic(), 0.0
    for count in range(STEADY + 1, STEADY + AFTER + 1):
        now = it.when(AGGREGATED, count)
        waited, last = max(waited, now - last), now
    after = AGGREGATED.findall(it.said)[STEADY:]
    return {
        "waited": round(waited, 1),
        "results": [int(results) for results, _ in after],
        "failures": [int(failures) for _, failures in after],
    }


def killed_server(it: Deployment) -> JSON:
    """Kills the SuperLink and all that it started, and starts it again."""
    it.when(AGGREGATED, BEFORE)
    time.sleep(AT_WORK)
    end(it.link)
    before = len(AGGREGATED.findall(it.said))
    killed = time.monotonic()
    it.commands.start_super_link(it.port, *DATABASE)
    up = time.monotonic()
    back, status = None, ""
    # A run that has finished makes no more rounds: then there is nothing to watch.
    while time.monotonic() < up + WATCHED and not status.startswith("finished"):
        if len(AGGREGATED.findall(it.said)) > before:
            back = round(time.monotonic() - killed, 1)
            break
        status = it.status()
    return {
        "before": before,
        "back": back,
        "status": status,
        "watched": round(time.monotonic() - up),
    }
