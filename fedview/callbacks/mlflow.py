"""Logs a run to MLflow: experiment and server are those that its environment names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedcore.typing import Seconds
from fedrun.optional import require
from fedview.callbacks.base import Callback, flat, totals
from fedview.results import Results

_LONGEST = 500  # characters of a parameter that any of its servers takes


class MLflow(Callback):
    """Logs settings as parameters, metrics over versions, the config as an artifact."""

    def __init__(self) -> None:
        self._mlflow = require("mlflow", "mlflow", "logging to MLflow")

    def on_begin(self, config: Mapping[str, Any], folder: Path) -> None:
        """Starts a run, nested in the active one if there is one."""
        mlflow = self._mlflow
        is_inside = mlflow.active_run() is not None
        mlflow.start_run(run_name=folder.name, nested=is_inside)
        mlflow.log_params({k: str(v)[:_LONGEST] for k, v in flat(config)})
        mlflow.log_dict(dict(config), "config.json")

    def on_metrics(
        self, version: int, seconds: Seconds, values: Mapping[str, float]
    ) -> None:
        """Logs the value of each metric."""
        self._mlflow.log_metrics({**values, "seconds": seconds}, step=version)

    def on_end(self, results: Results | None) -> None:
        """Logs the totals, and ends the run."""
        if results is not None:
            self._mlflow.log_metrics(totals(results))
        self._mlflow.end_run("KILLED" if results is None else "FINISHED")
