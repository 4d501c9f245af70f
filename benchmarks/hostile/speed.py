"""Updates a second without any attack: an older state of the sources beside this one.

Both serve at the same time, and are loaded in turn by the load generators of their own
(:mod:`benchmarks.speed.server`), so that a slow moment of the machine hits both.
"""

import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarks.hostile.checkout import Checkout
from benchmarks.speed.measure import Figure, Scale, in_turn
from benchmarks.speed.processes import cpu_seconds
from benchmarks.speed.server import TRAFFIC, Traffic, config, save_zeros
from fedcore.typing import JSON, Seconds
from tools.local import LocalFederation

LARGE = 1_000_000
SCALE = Scale(repetitions=9)


class _Side:
    """One state of the sources: its server, and the load on it."""

    def __init__(
        self, stack: ExitStack, folder: Path, checkout: Checkout, traffic: Traffic
    ) -> None:
        settings = config(traffic.algorithm, SCALE)
        federation = LocalFederation(
            folder, settings, app="", environment=checkout.environment
        )
        stack.enter_context(federation)
        model = folder / "model.safetensors"
        save_zeros(model, LARGE)
        process = federation.server("--no-evaluator").process
        assert process is not None
        words = [federation.address, str(model), "--kind", traffic.kind]
        self._load = stack.enter_context(
            checkout.helper(folder, "benchmarks.speed.load", *words)
        )
        self._pid, self._updates = process.pid, traffic.updates
        self.cpu: list[Seconds] = []
        self._load.ask(str(traffic.before))

    def push(self) -> Seconds:
        """One round of updates; notes what it cost the server."""
        cpu = cpu_seconds(self._pid)
        seconds = float(self._load.ask(str(self._updates)))
        self.cpu.append((cpu_seconds(self._pid) - cpu) / self._updates)
        return seconds


def speed(before: Checkout, after: Checkout) -> JSON:
    """Rates and ratios for each kind of traffic."""
    found = {}
    for traffic in TRAFFIC:
        with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
            sides = {
                name: _Side(stack, Path(scratch) / name, checkout, traffic)
                for name, checkout in (("before", before), ("after", after))
            }
            works = {name: side.push for name, side in sides.items()}
            seconds = in_turn(works, SCALE.rounds)
        ratios = seconds["before"].over(seconds["after"])
        cpu = {name: Figure(side.cpu[1:]).times(1e3) for name, side in sides.items()}
        found[traffic.title] = {
            "updates a second": {
                name: _values(figure.rate(traffic.updates))
                for name, figure in seconds.items()
            },
            "CPU ms": {name: _values(figure) for name, figure in cpu.items()},
            "ratio": float(f"{ratios.median:.3g}"),
            "ratios": _values(ratios),
        }
    return found


def _values(figure: Figure) -> list[float]:
    return [float(f"{value:.4g}") for value in figure.values]
