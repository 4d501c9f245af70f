"""Logs a run to Weights & Biases, in the project that ``WANDB_PROJECT`` names."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedcore.typing import Seconds
from fedrun.optional import require
from fedview.callbacks.base import Callback, totals
from fedview.results import Results

PROJECT = "latecomer"  # if the environment names none


class WandB(Callback):
    """Logs metrics over versions; ``WANDB_MODE=offline`` needs no account."""

    def __init__(self) -> None:
        self._wandb = require("wandb", "wandb", "logging to Weights & Biases")
        self._run: Any = None

    def on_begin(self, config: Mapping[str, Any], folder: Path) -> None:
        """Starts a run."""
        self._run = self._wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=folder.name,
            dir=str(folder),
            config=dict(config),
        )
        self._run.define_metric("version")
        self._run.define_metric("*", step_metric="version")

    def on_metrics(
        self, version: int, seconds: Seconds, values: Mapping[str, float]
    ) -> None:
        """Logs the value of each metric."""
        self._run.log({"version": version, "seconds": seconds, **values})

    def on_end(self, results: Results | None) -> None:
        """Logs the totals, and ends the run."""
        if results is not None:
            self._run.summary.update(totals(results))
        self._run.finish(exit_code=1 if results is None else 0)
