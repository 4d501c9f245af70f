"""``fedsim scale``: what more workers bring, and when they stop helping."""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from rich.console import Console

from fedcore.errors import ConfigError
from fedcore.model import FlatModel
from fedcore.payloads import pack
from fedcore.planning.paleo import Device, Exchange, Link
from fedcore.rng import Key
from fedcore.training import initial_model
from fedcore.typing import Vector
from fedcore.user_code import user_code
from fedcore.workload import Workload
from fedrun.config import FederationConfig
from fedrun.config.yaml_text import mapping_of, text_of, validate
from fedstudies.federated import CONFIG, Federated
from fedstudies.first_updates import first_updates
from fedstudies.frame import Option, Phase, Progress, Steps
from fedstudies.functions import function_of
from fedstudies.prices.price_file import MachinesConfig, read_prices
from fedstudies.scaling.gradients import limits_at
from fedstudies.scaling.layers import Step, first_samples, is_module, step_of
from fedstudies.scaling.measure import measure_device
from fedstudies.scaling.report import ScaleReport
from fedstudies.scaling.runs import measure_scaling
from fedstudies.typed import numbers
from fedview.results import Results

NO_DEVICE = (
    "No device is given, so this machine was measured; with --device a file describes "
    "another one."
)
SAME_CLIENTS = "All runs have the same number of clients, so no scaling is measured."
_MOST = 999_999  # workers
_WORKERS = f"whole numbers from 1 to {_MOST:,}"
_MBIT = 125_000  # bytes
_SERVER_MBIT = 1000.0  # where nobody says what the server's link carries
_LINK = ("up", "down", "server")


class Scale(Federated[ScaleReport]):
    """Predict what more workers bring, and when they stop helping.

    The seconds of a round are predicted from the model's layers, the device and the
    network; how many clients are worth averaging follows from the gradients of the
    app's own data.

    Returns:
        The report: ``layer_times``, ``scaling()`` and ``limits``; ``verdict`` in words.

    Raises:
        ConfigError: a setting is wrong.
        UserCodeError: the user's code raised.
        JournalError: a folder holds no run.
    """

    config: Annotated[str | Path, CONFIG]
    """The YAML file of the federation."""
    _: KW_ONLY
    workers: Annotated[
        Sequence[Annotated[int, Field(ge=1, le=_MOST)]],
        numbers(_WORKERS, "1,2,4,8", most=_MOST),
    ] = (1, 2, 4, 8, 16, 32)
    """The numbers of workers to predict for."""
    device: str | Path | None = None
    """A YAML file that describes the clients' device. Without it, this machine is
    measured."""
    measure: bool = False
    """Measure this machine, and do not remark on it."""
    link: Annotated[
        str | None, Option("MBIT", wanted="a text such as 'up=10,down=50'")
    ] = None
    """Mbit/s of the network, such as 100 or up=10,down=50,server=1000. Without it,
    simulate.link and a server of 1000."""
    prices: Annotated[str | Path | None, Option(wanted="a path or a name")] = None
    """The file of prices of machines, or the name of one that comes with the program,
    such as aws_gpus_2026."""
    runs: Annotated[Sequence[str | Path], Option("FOLDER")] = ()
    """A run of the same app. Runs of various numbers of clients show the measured
    scaling; the batch limit is also measured at the last one's model."""

    examples: ClassVar = (
        "federation.yaml --workers 1,2,4,8,16,32",
        "federation.yaml --device phone.yaml --link up=10,down=50",
        "federation.yaml --prices aws_gpus_2026 --link 10000",
    )

    def validate(self) -> None:
        """Checks that the device is either given or measured."""
        if self.device is not None and self.measure:
            raise ConfigError("give --device or --measure, not both")

    def perform(self, console: Console) -> Steps[ScaleReport]:
        """Counts the layers, and measures device, gradients and messages."""
        federation = self.federation()
        config, app, _ = federation
        link = link_of(self.link, config)
        device = None if self.device is None else read_device(Path(self.device))
        prices, links = None, list[Link]()
        if self.prices is not None:
            prices = read_prices(self.prices, MachinesConfig)
            links = links_of(prices, link, str(self.prices))
        workload, doubts = federation.load(), list[str]()
        runs = [Path(run) for run in self.runs]
        measured = measure_scaling(runs) if runs else None
        if len(runs) > 1 and measured is None:
            doubts.append(SAME_CLIENTS)
        with user_code("the model"):
            model: FlatModel = workload.flat()
        yield Phase("scale", 4)
        step, steps = None, 1
        if is_module(workload):
            step = step_of(workload, model, config)
            samples = len(first_samples(workload, config))
            steps = config.algorithm.client.steps_of(samples, 1.0, None)
        doubts += _doubts_of(step, app)
        yield Progress(1, "layers")
        if step is not None and device is None:
            device = measure_device()
            doubts += [] if self.measure else [NO_DEVICE]
        yield Progress(1, "device")
        initial_D = initial_model(model, config.seed)
        limits = {"initial": limits_at(initial_D, model, workload, config)}
        if runs:
            last_D = last_model(runs[-1], model, app)
            limits[str(runs[-1])] = limits_at(last_D, model, workload, config)
        yield Progress(1, "gradients")
        exchange = exchange_of(workload, config)
        yield Progress(1, "bytes")
        return ScaleReport(
            app=app,
            workers=sorted({1, *self.workers}),
            exchange=exchange,
            link=link,
            limits=limits,
            averaged=config.algorithm.buffer,
            device=None if step is None else device,
            step=step,
            steps=steps,
            measured=measured,
            doubts=doubts,
            prices=prices,
            links=links,
        )


scale = function_of(Scale)


def _doubts_of(step: Step | None, app: str) -> list[str]:
    """Returns what is not known of a training step, in sentences."""
    if step is None:
        return [
            f"{app} is no torch module, so its layers are unknown: only the "
            "communication and the batch limit are told."
        ]
    if not step.unknown:
        return []
    return [
        "No rule is known for some operations, which are counted as one FLOP for each "
        f"value: {', '.join(step.unknown)}."
    ]


def last_model(folder: Path, model: FlatModel, app: str) -> Vector:
    """Returns the last model of a run, as one vector.

    Raises:
        ConfigError: it is that of another app.
    """
    arrays = Results(folder).model("last")
    missing = [t.name for t in model.spec.tensors if t.name not in arrays]
    if missing or any(arrays[t.name].size != t.size for t in model.spec.tensors):
        raise ConfigError(
            f"--run {folder}: its model is not that of {app}; give a run of the same "
            "app"
        )
    parts = [np.ravel(arrays[t.name]) for t in model.spec.tensors]
    return np.concatenate(parts).astype(np.float32)


def exchange_of(workload: Workload, config: FederationConfig) -> Exchange:
    """Encodes the update of a first task, as client and server would.

    Raises:
        UserCodeError: the user's code raised.
        ConfigError: a first task diverges.
    """
    sample = first_updates(workload, config)
    delta_D, sizes = sample.deltas[0], []
    for codec in (config.algorithm.uplink, config.algorithm.downlink):
        compressor = codec.build_for(sample.spec)
        state = compressor.init(sample.spec.dim)
        payload, _ = compressor.encode(delta_D, state, Key.root(config.seed))
        sizes.append(len(pack(payload)))
    up, down = sizes
    return Exchange(values=4 * math.prod(delta_D.shape), up=up, down=down)


def read_device(path: Path) -> Device:
    """The device that a YAML file describes.

    Raises:
        ConfigError: the file cannot be read, or a field is wrong.
    """
    if not path.is_file():
        raise ConfigError(
            f"--device {path}: there is no such file; expected a YAML file with keys "
            "such as peak_gflops: 50 (without --device, this machine is measured)"
        )
    text = text_of(path)
    raw = mapping_of(text, str(path), "keys and values such as peak_gflops: 50")
    return validate(Device, raw, str(path), text)


def link_of(text: str | None, config: FederationConfig) -> Link:
    """The network that ``--link`` gives, else that of ``simulate.link``.

    Args:
        text: Mbit/s, as ``up=10,down=50,server=1000``, or one number for all three.
        config: gives what is not said.

    Raises:
        ConfigError: a rate is not above 0, or there is no such direction.
    """
    given = config.simulate.link
    usual = Link(
        up=_MBIT * given.up_mbit,
        down=_MBIT * given.down_mbit,
        server=_MBIT * _SERVER_MBIT,
        latency=given.latency,
    )
    return usual if text is None else read_link(text, usual)


def links_of(prices: MachinesConfig, usual: Link, source: str) -> list[Link]:
    """Returns the network of each kind of machine.

    Args:
        prices: name the kinds.
        usual: gives what they do not say.
        source: where the prices are from, for errors.

    Raises:
        ConfigError: a rate is not above 0, or there is no such direction.
    """
    return [
        usual
        if kind.link is None
        else read_link(str(kind.link), usual, f"{source}: link of {kind.name}:")
        for kind in prices.machines
    ]


def read_link(text: str, usual: Link, source: str = "--link") -> Link:
    """Returns a network in Mbit/s.

    Args:
        text: as ``up=10,down=50,server=1000``, or one number for all three.
        usual: gives what is not said.
        source: where the text is from, for errors.

    Raises:
        ConfigError: a rate is not above 0, or there is no such direction.
    """
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals:
            name, value = "", name
        try:
            rate = float(value)
        except ValueError:
            rate = 0.0
        if not 0 < rate < float("inf") or (name and name not in _LINK):
            raise ConfigError(
                f"{source} {text}: expected Mbit/s above 0, such as 100 or "
                "up=10,down=50,server=1000"
            )
        names = [name] if name else _LINK
        usual = usual._replace(**dict.fromkeys(names, _MBIT * rate))
    return usual
