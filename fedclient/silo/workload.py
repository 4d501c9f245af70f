"""A workload whose gradients are computed by the workers of a silo."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, cast

from fedclient.silo.answer import digests
from fedclient.silo.pool import SiloWorkers
from fedclient.silo.worker import SETTING, Blueprint
from fedcore.algorithm import Algorithm
from fedcore.coding import GradientCode, check_silo, gradient_code
from fedcore.errors import ConfigError, NotStackableError
from fedcore.model import FlatModel, StackedModel
from fedcore.rng import Key
from fedcore.samples import Samples
from fedcore.typing import Counts, Indices, Vector
from fedcore.workload import Client, Workload, require_batches, require_sums


def read_workers(workers: int | None, stragglers: int | None) -> GradientCode | None:
    """Returns the code of ``--workers`` and ``--stragglers``; None without workers.

    Raises:
        ConfigError: no code has these numbers.
    """
    if workers is None:
        if stragglers is not None:
            raise ConfigError(f"--stragglers {stragglers}: it needs --workers")
        return None
    stragglers = stragglers or 0
    try:
        check_silo(workers, stragglers)
    except ConfigError as error:
        raise ConfigError(f"{SETTING}: {error}") from error
    return gradient_code(workers, stragglers)


def with_workers(
    workload: Workload,
    app: str,
    device: str | None,
    code: GradientCode,
    stack: ExitStack,
) -> "SiloWorkload":
    """Returns a workload whose gradients workers compute.

    They start when the client's data are read for the first time.

    Args:
        workload: the app's workload, on the device.
        app: the app's name, by which the workers import it.
        device: the device of the workers; None for the app's own choice.
        code: the silo's code.
        stack: the stack whose exit ends the workers.
    """
    silo = _Silo(app, device, code, stack)

    def train_data(client: Client) -> Any:
        silo.start(client)
        return workload.train_data(client)

    return SiloWorkload(
        train_data=train_data,
        valid_data=workload.valid_data,
        test_data=workload.test_data,
        inner=workload,
        silo=silo,
    )


class _Silo:
    """The workers, which start when they are first needed."""

    def __init__(
        self, app: str, device: str | None, code: GradientCode, stack: ExitStack
    ) -> None:
        self._app, self._device, self.code, self._stack = app, device, code, stack
        self._pool: SiloWorkers | None = None
        self._checked = False

    @property
    def pool(self) -> SiloWorkers:
        assert self._pool is not None  # gradients are of samples, which were read
        return self._pool

    def start(self, client: Client) -> None:
        """Starts the workers, if they are not running."""
        if self._pool is None:
            blueprint = Blueprint(
                self._app,
                self._device,
                client,
                self.code.workers,
                self.code.stragglers,
                0,
            )
            pool = SiloWorkers(self.code, blueprint)
            self._pool = self._stack.enter_context(pool)

    def expect(self, samples: Samples) -> None:
        """Lets the workers compare their data with those of the client."""
        if self._pool is not None and not self._checked:
            self._checked = True
            self._pool.expect(digests(samples, self.code.workers))


@dataclass(frozen=True, kw_only=True)
class SiloWorkload(Workload):
    """A workload with another one's model, and gradients from the workers of a silo."""

    inner: Workload
    silo: _Silo

    def flat(self) -> FlatModel:
        """Returns the model, whose gradients take rows.

        Raises:
            ConfigError: workers cannot compute them.
        """
        model = self.inner.flat()
        require_sums(self.inner, model.spec, SETTING)
        return cast(FlatModel, SiloModel(model, lambda: self.silo.pool))

    def samples(self, data: Any, whose: str) -> Samples:
        """Returns the rows; a batch consists of row numbers."""
        samples = self.inner.samples(data, whose)
        self.silo.expect(samples)
        return RowSamples(samples)

    def fits(self, algorithm: Algorithm) -> None:
        """Checks the inner workload, and that the workers can do what it takes.

        Raises:
            ConfigError: they cannot.
        """
        self.inner.fits(algorithm)
        require_batches(algorithm.config.client, self.silo.code.workers, SETTING)


class RowSamples:
    """Samples whose batches are row numbers; the workers read the rows themselves."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def __len__(self) -> int:
        """Returns the number of samples."""
        return len(self._samples)

    def batch(self, rows: Indices) -> tuple[Indices, None]:
        """Returns the rows as inputs, without targets."""
        return rows, None

    def label_counts(self, rows: Indices) -> Counts | None:
        """Returns how often each class is among these rows."""
        return self._samples.label_counts(rows)


class SiloModel:
    """A model whose gradients the workers of a silo compute."""

    def __init__(self, model: FlatModel, pool: Callable[[], SiloWorkers]) -> None:
        self._model, self._pool = model, pool
        self._key, self._steps = Key.root(0), 0
        self.spec, self.local_L, self.advice = model.spec, model.local_L, model.advice

    def seed(self, key: Key) -> None:
        """Keeps the key, from which the workers draw by step and shard."""
        self._key, self._steps = key, 0

    def gradient(self, w_D: Vector, x: Any, y: Any) -> tuple[float, Vector]:
        """Returns the mean loss over a batch and its gradient.

        Args:
            w_D: the model.
            x: the rows of the batch, as :class:`RowSamples` returns them.
            y: nothing.
        """
        self._steps += 1
        return self._pool().gradient(w_D, x, self._key.fold_in("step", self._steps))

    def stack(self, device: str = "cpu") -> StackedModel:
        """Refuses: the workers have one client's data.

        Raises:
            NotStackableError: always.
        """
        raise NotStackableError("the workers of a silo compute for one client")

    def __getattr__(self, name: str) -> Any:
        """Returns any other attribute of the model."""
        return getattr(self._model, name)
