"""``fedsim predict``: the throughput of many clients, from what one client did."""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field
from rich.console import Console

from fedcore.config import Count
from fedcore.errors import ConfigError
from fedcore.planning.demands import demands_of
from fedcore.planning.parts import Order
from fedcore.planning.throughput import Pace, Prediction
from fedcore.planning.throughput import predict as predicted
from fedcore.planning.trace import Trace
from fedcore.rng import Key
from fedrun.cli.command import methods_option
from fedrun.phase_file import read_phases
from fedstudies.frame import (
    Option,
    Phase,
    Progress,
    Steps,
    Stopped,
    Study,
    stopping,
)
from fedstudies.functions import function_of
from fedstudies.predict.forecast import Forecast
from fedstudies.predict.journal import journal_trace, trainers_of
from fedstudies.typed import numbers
from fedview.results import Results

MOST_CLIENTS = 10_000
BUFFER = 10
_CLIENTS = f"numbers of clients from 1 to {MOST_CLIENTS:,}"
_MBIT = 1e6 / 8  # bytes a second


class Predict(Study[Forecast]):
    """Predict the throughput of many clients from what one did.

    The clients are copies of the traced one, and share the server and its link.

    Returns:
        The predictions: ``rows``, one for each number of clients; ``verdict`` and
        ``doubts`` are in words, ``as_json()`` is plain data.

    Raises:
        ConfigError: an argument is wrong, or the trace cannot support a prediction.
    """

    trace: Annotated[str | Path, Option(is_argument=True)]
    """The file that fedclient join --phases wrote, or the folder of a run."""
    workers: Annotated[
        Sequence[Annotated[int, Field(ge=1, le=MOST_CLIENTS)]],
        Field(min_length=1),
        numbers(_CLIENTS, "2,4,8", most=MOST_CLIENTS),
    ] = (2, 4, 8)
    """The numbers of clients to predict for."""
    _: KW_ONLY
    client: Annotated[str | None, Option(wanted="the name of a client")] = None
    """Whose tasks to take; needed if TRACE is the folder of a run."""
    buffer: Count | None = None
    """How many updates make a version; with --synchronous, the cohort. Without it, 10,
    or all clients."""
    synchronous: bool = False
    """Clients train in rounds, and wait for each."""
    server_up_mbit: Annotated[float | None, Option("MBIT")] = None
    """What all clients together can send to the server in a second. Without it, the
    rate of the traced client."""
    server_down_mbit: Annotated[float | None, Option("MBIT")] = None
    """What the server can send to all clients together, likewise."""
    server_ms: Annotated[float | None, Option("MS")] = None
    """How long the server works on an update. Without it, what a verdict takes longer
    than the shortest answer to a request."""
    order: Order = "fifo"
    """How the parts of a trace's model travel: as updates bring them, as they are
    needed, or as a whole, so that nothing overlaps."""
    seed: Annotated[int, Field(ge=0)] = 0
    """The seed of the draws."""

    examples: ClassVar = (
        "phases.jsonl --workers 2,4,8 --buffer 4 \\\n"
        "    --server-up-mbit 100 --server-down-mbit 100 -o forecast",
        "runs/digits --client ann --workers 10,20 --synchronous",
    )
    decorators: ClassVar = (methods_option,)

    def validate(self) -> None:
        """Checks the rates, and that a cohort has enough clients."""
        rates = {
            "--server-up-mbit": self.server_up_mbit,
            "--server-down-mbit": self.server_down_mbit,
        }
        for name, mbit in rates.items():
            if mbit is not None and not mbit > 0:
                raise ConfigError(f"{name} {mbit:g}: expected a rate above 0")
        if self.server_ms is not None and not 0 <= self.server_ms < math.inf:
            raise ConfigError(f"--server-ms {self.server_ms:g}: expected 0 or more")
        pace = self.pace
        if pace is not None and pace.is_synchronous and min(self.workers) < pace.buffer:
            raise ConfigError(
                f"--buffer {pace.buffer} --synchronous: a cohort needs as many "
                f"clients, and --workers names {min(self.workers)}"
            )

    @property
    def pace(self) -> Pace | None:
        """When a version is made; None: when all clients have sent an update."""
        if self.synchronous and self.buffer is None:
            return None
        return Pace(BUFFER if self.buffer is None else self.buffer, self.synchronous)

    def perform(self, console: Console) -> Steps[Forecast]:
        """Predicts for each number of clients, and for one where a cohort allows it."""
        up, down = _bytes(self.server_up_mbit), _bytes(self.server_down_mbit)
        server = None if self.server_ms is None else self.server_ms / 1000
        trace = self._read(up, down)
        demands, assumed = demands_of(
            trace, up=up, down=down, server=server, order=self.order
        )
        rows, doubts = list[Prediction](), [*trace.doubts, *assumed]

        def forecast() -> Forecast:
            source = Path(self.trace).name
            return Forecast(source, trace, demands, self.pace, rows, doubts)

        is_cohort = self.pace is not None and self.pace.is_synchronous
        workers = sorted({*self.workers} if is_cohort else {1, *self.workers})
        yield Phase("predictions", len(workers))
        with stopping(lambda: Stopped(forecast() if rows else "nothing was predicted")):
            for clients in workers:
                pace = self.pace or Pace(clients, is_synchronous=True)
                key = Key.root(self.seed).fold_in("throughput")
                rows.append(predicted(demands, clients, pace, key=key))
                yield Progress(1, f"{clients} clients")
        return forecast()

    def _read(self, up: float | None, down: float | None) -> Trace:
        """Reads the trace from a file, or from the journal in a folder."""
        path = Path(self.trace)
        if not path.exists():
            raise ConfigError(f"{path}: there is no such trace and no such run")
        if path.is_dir():
            if self.client is None:
                raise ConfigError(
                    f"{path}: is a run; --client says whose tasks to take: "
                    f"{trainers_of(Results(path))}"
                )
            return journal_trace(Results(path), self.client, up, down)
        trace = read_phases(path)
        if self.client not in (None, trace.client):
            raise ConfigError(
                f"--client {self.client}: {path} is the trace of {trace.client!r}"
            )
        return trace


predict = function_of(Predict)


def _bytes(mbit: float | None) -> float | None:
    return None if mbit is None else mbit * _MBIT
