"""What ``fedsim scale`` does: from a command line to tables, a page and numbers."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from rich.console import Console

from fedcore.errors import ConfigError
from fedcore.model import FlatModel
from fedcore.planning.paleo import Device
from fedcore.training import initial_model
from fedcore.typing import Vector
from fedcore.user_code import user_code
from fedcore.workload import Workload
from fedrun.app import app_of, load_app
from fedrun.cli.plain_json import to_json
from fedrun.config import FederationConfig, load_config
from fedsim.api import free_folder
from fedstudies.files import Files, write_files
from fedstudies.old_frame import QUIET, Options, Progress, follow
from fedstudies.scaling.exchange import exchange_of
from fedstudies.scaling.given import link_of, read_device, workers_of
from fedstudies.scaling.gradients import Limits, limits_at
from fedstudies.scaling.layers import Step, first_samples, is_module, step_of
from fedstudies.scaling.measure import measure_device
from fedstudies.scaling.page import scale_page
from fedstudies.scaling.report import ScaleReport
from fedstudies.scaling.runs import measured_scaling
from fedstudies.scaling.tables import (
    communication_cells,
    layer_cells,
    limit_cells,
    scaling_cells,
)
from fedstudies.tables import screen, tell
from fedview.results import Results

NO_DEVICE = (
    "No device is given, so this machine was measured; with --device a file describes "
    "another one."
)

SAME_CLIENTS = "All runs have the same number of clients, so no scaling is measured."


@dataclass(frozen=True, kw_only=True)
class ScaleOptions(Options):
    """What was asked for on the command line."""

    config: Path
    workers: str
    device: Path | None
    measure: bool
    link: str | None
    runs: Sequence[Path]
    as_json: bool = False
    seeds: int = 1
    jobs: int = 1


def show_scale(options: ScaleOptions) -> None:
    """Predicts and measures, writes page and numbers, and prints the report."""
    console = Console(stderr=True)
    config = load_config(options.config, options.changes)
    out = options.folder(free_folder(config, "scale"))
    report = compute_scale(options, console)
    if options.as_json:
        click.echo(to_json(report.as_json(), indent=1))
        return
    files = write_scale(report, out)
    shown = screen()
    if report.layer_times:
        shown.print(layer_cells(report).on_screen(title="A training step"))
    shown.print(communication_cells(report).on_screen(title="One exchange"))
    if (found := report.scaling()) is not None:
        shown.print(scaling_cells(found).on_screen(title="Predicted scaling"))
    if report.measured is not None:
        cells = scaling_cells(report.measured)
        shown.print(cells.on_screen(title="Measured scaling"))
    shown.print(limit_cells(report).on_screen(title="Batch limit"))
    for line in files.lines:
        tell(shown, line)
    for sentence in report.sentences:
        click.echo(sentence)
    click.echo(report.verdict)


def write_scale(report: ScaleReport, out: Path) -> Files:
    """Writes the page and the numbers of a report."""
    return write_files(out, "scale", scale_page(report), report.as_json())


def compute_scale(options: ScaleOptions, console: Console = QUIET) -> ScaleReport:
    """Makes the report without printing it.

    Raises:
        ConfigError: a setting is wrong.
        UserCodeError: the user's code raised.
        JournalError: a folder holds no run.
    """
    workers = workers_of(options.workers)
    config = load_config(options.config, options.changes)
    link = link_of(options.link, config)
    if options.device is not None and options.measure:
        raise ConfigError("give --device or --measure, not both")
    given = None if options.device is None else read_device(options.device)
    name, place = app_of(options.app, config, options.config)
    workload = load_app(name, place)
    work = _Work(config, workload, name)
    measured = measured_scaling(options.runs) if options.runs else None
    if len(options.runs) > 1 and measured is None:
        work.doubts.append(SAME_CLIENTS)

    def steps() -> Generator[Progress]:
        work.count_step()
        yield Progress(1, "layers")
        work.find_device(given, options)
        yield Progress(1, "device")
        work.find_limits(options.runs)
        yield Progress(1, "gradients")
        work.find_exchange()
        yield Progress(1, "bytes")

    follow(steps(), "scale", 4, console)
    return ScaleReport(
        app=name,
        workers=workers,
        exchange=work.exchange,
        link=link,
        limits=work.limits,
        averaged=_averaged(config),
        device=work.device,
        step=work.step,
        steps=work.steps,
        measured=measured,
        doubts=work.doubts,
    )


def _averaged(config: FederationConfig) -> int:
    """How many updates make a version."""
    return config.algorithm.buffer


class _Work:
    """The parts of a report, found one after the other."""

    def __init__(self, config: FederationConfig, workload: Workload, app: str) -> None:
        self._config, self._workload, self._app = config, workload, app
        with user_code("the model"):
            self._model: FlatModel = workload.flat()
        self.step: Step | None = None
        self.steps = 1
        self.device: Device | None = None
        self.limits: dict[str, Limits] = {}
        self.doubts: list[str] = []

    def count_step(self) -> None:
        if not is_module(self._workload):
            self.doubts.append(
                f"{self._app} is no torch module, so its layers are unknown: only the "
                "communication and the batch limit are told."
            )
            return
        self.step = step_of(self._workload, self._model, self._config)
        samples = len(first_samples(self._workload, self._config))
        self.steps = self._config.algorithm.client.steps_of(samples, 1.0, None)
        if self.step.unknown:
            self.doubts.append(
                "No rule is known for some operations, which are counted as one FLOP "
                f"for each value: {', '.join(self.step.unknown)}."
            )

    def find_device(self, given: Device | None, options: ScaleOptions) -> None:
        if self.step is None:
            return
        if given is None:
            given = measure_device()
            if not options.measure:
                self.doubts.append(NO_DEVICE)
        self.device = given

    def find_limits(self, runs: Sequence[Path]) -> None:
        initial_D = initial_model(self._model, self._config.seed)
        self._add_limits("initial", initial_D)
        if runs:
            self._add_limits(str(runs[-1]), self._last_model(runs[-1]))

    def _add_limits(self, name: str, w_D: Vector) -> None:
        found = limits_at(w_D, self._model, self._workload, self._config)
        self.limits[name] = found

    def _last_model(self, folder: Path) -> Vector:
        arrays = Results(folder).model("last")
        spec = self._model.spec
        missing = [t.name for t in spec.tensors if t.name not in arrays]
        if missing or any(arrays[t.name].size != t.size for t in spec.tensors):
            raise ConfigError(
                f"--run {folder}: its model is not that of {self._app}; give a run of "
                "the same app"
            )
        parts = [np.ravel(arrays[t.name]) for t in spec.tensors]
        return np.concatenate(parts).astype(np.float32)

    def find_exchange(self) -> None:
        self.exchange = exchange_of(self._workload, self._config)
