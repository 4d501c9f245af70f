"""The checkpoints that a run writes: the last model, and the best one."""

import contextlib
import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from fedcore.coordinator.events import Closed, Evaluated, Leased
from fedcore.coordinator.settings import lower_is_better
from fedcore.errors import DiskError
from fedcore.typing import Vector
from fedrun.evaluation import main_metric
from fedrun.files import load_metadata, save_model
from fedrun.journal.disk import writing
from fedrun.journal.store import Row
from fedrun.run import Run

_log = logging.getLogger(__name__)
_MOST_HELD = 4  # models that are being evaluated at a time


class CheckpointKeeper:
    """Writes ``models/best.safetensors`` and ``models/last.safetensors``."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._folder = run.journal.folder / "models"
        self._held: dict[int, Vector] = {}
        self._waiting: dict[str, Callable[[], None]] = {}  # writes that failed, by name
        self._best = self._best_so_far()
        if run.coordinator.state.closed:
            self.save_last()  # an earlier process may have ended before it did
        else:
            path = self._path("last")
            with writing(path):
                path.unlink(missing_ok=True)  # the run goes on

    def hold(self, record: Row) -> None:
        """Keeps the newest model in memory if the record hands it to an evaluator."""
        state = self._run.coordinator.state
        if isinstance(record, Leased) and record.task == "evaluate":
            assert record.version == state.version
            self._held[state.version] = state.published.public_D
            while len(self._held) > _MOST_HELD:
                del self._held[min(self._held)]

    def take_note(self, records: Iterable[Row]) -> None:
        """Saves the best or the last model if these durable records change it.

        A model that cannot be written leads to a warning, and is written later.
        """
        self.write_waiting()
        state = self._run.coordinator.state
        for record in records:
            match record:
                case Evaluated() if state.clients[record.cid].role == "evaluator":
                    self._compare(record)
                case Closed():
                    self.save_last()
                case _:
                    pass

    def save_last(self) -> None:
        """Saves the public model as it is now."""
        state = self._run.coordinator.state
        self._save("last", state.version, state.published.public_D, "")

    def _compare(self, record: Evaluated) -> None:
        name = main_metric(record.values)
        model_D = self._held.get(record.version)
        if name is None or model_D is None:
            return
        value = record.values[name]
        if self._best is None or (
            value < self._best if lower_is_better(name) else value > self._best
        ):
            self._best = value
            self._save("best", record.version, model_D, f"{name}={value!r}")

    def write_waiting(self) -> None:
        """Writes the models that could not be written before."""
        for which, write in list(self._waiting.items()):
            try:
                write()
            except DiskError as error:
                _log.warning("the %s model was not written: %s", which, error)
            else:
                del self._waiting[which]

    def _save(self, which: str, version: int, model_D: Vector, evaluated: str) -> None:
        metadata = {
            "version": str(version),
            "epoch": self._run.coordinator.state.epoch,
            "run": self._run.run_id,
            "evaluated": evaluated,
        }

        def write() -> None:
            path, spec = self._path(which), self._run.coordinator.algorithm.model
            with writing(path):
                rest = self._run.journal.rest()
                save_model(path, spec, model_D, rest=rest, private=True, **metadata)

        self._waiting[which] = write
        self.write_waiting()

    def _path(self, which: str) -> Path:
        return self._folder / f"{which}.safetensors"

    def _best_so_far(self) -> float | None:
        path = self._path("best")
        if not path.is_file():
            return None
        evaluated = load_metadata(path).get("evaluated", "")
        with contextlib.suppress(ValueError):  # it says something else
            return float(evaluated.partition("=")[2])
        return None
