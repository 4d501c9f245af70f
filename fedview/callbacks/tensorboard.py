"""Writes scalars over versions for TensorBoard, in the folder of the run."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedcore.typing import Seconds
from fedrun.optional import require
from fedrun.plain_files import make_own, write_text
from fedview.callbacks.base import Callback, totals
from fedview.results import Results

FOLDER = "tensorboard"


class TensorBoard(Callback):
    """Logs metrics by version; the axis "relative" shows the seconds of the run."""

    def __init__(self, folder: Path | None = None) -> None:
        """``folder`` gets the event file; without it, the run's folder does."""
        self._module = require(
            "tensorboard.summary", "tensorboard", "logging to TensorBoard"
        )
        self._folder = folder
        self._writer: Any = None
        self._began = 0.0
        self._version = 0

    def on_begin(self, config: Mapping[str, Any], folder: Path) -> None:
        """Opens the event file, and writes the config beside it."""
        place = self._folder or folder / FOLDER
        self._writer = self._module.Writer(str(make_own(place)))
        self._began = time.time()
        text = json.dumps(config, indent=1) + "\n"
        write_text(place / "config.json", text)

    def on_metrics(
        self, version: int, seconds: Seconds, values: Mapping[str, float]
    ) -> None:
        """Logs the value of each metric."""
        self._version = max(self._version, version)
        for name, value in values.items():
            self._writer.add_scalar(
                name, value, version, wall_time=self._began + seconds
            )
        self._writer.flush()

    def on_end(self, results: Results | None) -> None:
        """Writes the totals, and closes the file."""
        if results is not None:
            at = self._began + results.seconds
            for name, value in totals(results).items():
                self._writer.add_scalar(name, value, self._version, wall_time=at)
        self._writer.close()
