"""What ``fedsim predict`` does: from a trace to a table and a page."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console

from fedcore.errors import ConfigError
from fedcore.planning.demands import demands_of
from fedcore.planning.throughput import UPDATES, Pace, Prediction, predict
from fedcore.planning.trace import Trace
from fedcore.rng import Key
from fedcore.typing import Seconds
from fedrun.cli.plain_json import to_json
from fedrun.phase_file import read_phases
from fedstudies.files import Files, require_folder, write_files
from fedstudies.old_frame import QUIET, Progress, follow
from fedstudies.predict.forecast import Forecast
from fedstudies.predict.journal import journal_trace, trainers_of
from fedstudies.predict.page import forecast_page
from fedstudies.tables import screen, tell
from fedstudies.typed import whole_numbers
from fedview.results import Results

MOST_CLIENTS = 10_000
BUFFER = 10
_MBIT = 1e6 / 8  # bytes a second


@dataclass(frozen=True, kw_only=True)
class PredictOptions:
    """What was asked for."""

    trace: Path
    client: str | None = None
    workers: Sequence[int]
    buffer: int | None = None
    synchronous: bool = False
    up_mbit: float | None = None
    down_mbit: float | None = None
    server_ms: float | None = None
    seed: int = 0
    updates: int = UPDATES
    out: Path | None = None

    @property
    def pace(self) -> Pace | None:
        """When a version is made; None: when all clients have sent an update."""
        if self.synchronous and self.buffer is None:
            return None
        return Pace(BUFFER if self.buffer is None else self.buffer, self.synchronous)


def show_forecast(options: PredictOptions, *, as_json: bool) -> None:
    """Predicts; prints a table and a sentence, or JSON, and writes a page."""
    console = Console(stderr=True)
    forecast = compute_forecast(options, console)
    files = write_forecast(forecast, options.out)
    if as_json:
        click.echo(to_json(forecast.as_json()))
        return
    shown = screen()
    shown.print(forecast.cells().on_screen(title=forecast.heading))
    for line in files.lines if files is not None else ():
        tell(shown, line)
    for doubt in forecast.doubts:
        click.echo(doubt)
    click.echo(forecast.verdict)


def compute_forecast(options: PredictOptions, console: Console = QUIET) -> Forecast:
    """Predicts for each number of clients, and for one.

    Raises:
        ConfigError: an option is wrong, or the trace cannot support a prediction.
    """
    if options.out is not None:
        require_folder(options.out)
    workers = _counts(options)
    up, down = (
        _rate(name, mbit)
        for name, mbit in (
            ("--server-up-mbit", options.up_mbit),
            ("--server-down-mbit", options.down_mbit),
        )
    )
    server = _server_seconds(options.server_ms)
    trace = read_trace(options, up, down)
    demands, assumed = demands_of(trace, up=up, down=down, server=server)
    rows = list[Prediction]()

    def predicted() -> Generator[Progress]:
        for clients in workers:
            pace = options.pace or Pace(clients, is_synchronous=True)
            key = Key.root(options.seed).fold_in("throughput")
            rows.append(
                predict(demands, clients, pace, key=key, updates=options.updates)
            )
            yield Progress(1, f"{clients} clients")

    follow(predicted(), "predictions", len(workers), console)
    doubts = [*trace.doubts, *assumed]
    source = options.trace.name
    return Forecast(source, trace, demands, options.pace, rows, doubts)


def write_forecast(forecast: Forecast, out: Path | None) -> Files | None:
    """Writes the page and the numbers, if there is a folder for them."""
    if out is None:
        return None
    return write_files(out, "predict", forecast_page(forecast), forecast.as_json())


def read_trace(
    options: PredictOptions, up: float | None = None, down: float | None = None
) -> Trace:
    """Reads the trace from a file, or from the journal in a folder.

    Raises:
        ConfigError: there is none, or the client has to be named.
    """
    path = options.trace
    if not path.exists():
        raise ConfigError(f"{path}: there is no such trace and no such run")
    if path.is_dir():
        if options.client is None:
            raise ConfigError(
                f"{path}: is a run; --client says whose tasks to take: "
                f"{trainers_of(Results(path))}"
            )
        return journal_trace(Results(path), options.client, up, down)
    trace = read_phases(path)
    if options.client not in (None, trace.client):
        raise ConfigError(
            f"--client {options.client}: {path} is the trace of {trace.client!r}"
        )
    return trace


def counts_of(text: str) -> list[int]:
    """The numbers of clients that ``--workers`` names.

    Raises:
        ConfigError: one of them is no whole number.
    """
    expected = f"numbers of clients from 1 to {MOST_CLIENTS:,}, such as 2,4,8"
    return whole_numbers("--workers", text, expected, least=0)


def _counts(options: PredictOptions) -> list[int]:
    """The numbers of clients in order, with 1 in front where a cohort allows it."""
    given = sorted({*options.workers})
    if not given or given[0] < 1 or given[-1] > MOST_CLIENTS:
        raise ConfigError(
            f"--workers: expected numbers of clients from 1 to {MOST_CLIENTS:,}, got "
            f"{', '.join(map(str, given)) or 'none'}"
        )
    pace = options.pace
    if pace is not None and pace.buffer < 1:
        raise ConfigError(f"--buffer {pace.buffer}: expected 1 or more")
    if pace is not None and pace.is_synchronous:
        if given[0] < pace.buffer:
            raise ConfigError(
                f"--buffer {pace.buffer} --synchronous: a cohort needs as many "
                f"clients, and --workers names {given[0]}"
            )
        return given
    return sorted({1, *given})


def _rate(name: str, mbit: float | None) -> float | None:
    if mbit is None:
        return None
    if not mbit > 0:
        raise ConfigError(f"{name} {mbit:g}: expected a rate above 0")
    return mbit * _MBIT


def _server_seconds(milliseconds: float | None) -> Seconds | None:
    if milliseconds is None:
        return None
    if not 0 <= milliseconds < float("inf"):
        raise ConfigError(f"--server-ms {milliseconds:g}: expected 0 or more")
    return milliseconds / 1000
