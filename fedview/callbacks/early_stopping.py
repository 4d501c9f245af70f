"""Ends a run whose metric no longer improves."""

from collections.abc import Mapping

from fedcore.coordinator.settings import lower_is_better
from fedcore.errors import ConfigError
from fedcore.typing import Seconds
from fedview.callbacks.base import Callback


class EarlyStopping(Callback):
    """Ends the run after ``patience`` evaluations without a better value.

    The run keeps its best model: ``results.model("best")``.

    Args:
        metric: a metric of the evaluator. docs/user_code.md says which should fall.
        patience: after how many evaluations without improvement the run ends.
        min_delta: the least improvement that counts.

    Raises:
        ConfigError: ``patience`` is below 1, or ``min_delta`` below 0.
    """

    def __init__(
        self, metric: str = "accuracy", patience: int = 5, min_delta: float = 0.0
    ) -> None:
        if not isinstance(patience, int) or patience < 1:
            raise ConfigError(
                f"EarlyStopping: patience {patience!r}: expected 1 or more"
            )
        if not min_delta >= 0:
            raise ConfigError(f"EarlyStopping: min_delta {min_delta}: expected >= 0")
        self._metric, self._patience, self._least = metric, patience, min_delta
        self._best: float | None = None
        self._best_version, self._without = 0, 0

    def on_metrics(
        self, version: int, seconds: Seconds, values: Mapping[str, float]
    ) -> None:
        """Counts evaluations since the best one.

        Raises:
            ConfigError: the evaluator reports no such metric.
        """
        value = values.get(self._metric)  # only finite values are passed
        if value is None and values and self._best is None:
            raise ConfigError(
                f"EarlyStopping: there is no metric {self._metric!r}; the evaluator "
                f"reports {', '.join(values)}"
            )
        sign = -1 if lower_is_better(self._metric) else 1
        if value is not None and (
            self._best is None or sign * (value - self._best) > self._least
        ):
            self._best, self._best_version, self._without = value, version, 0
            return
        self._without += 1
        if self._without >= self._patience:
            best = (
                f": best {self._best:.4g} at version {self._best_version}"
                if self._best is not None
                else ""
            )
            self.stop(
                f"{self._metric} did not improve in {self._patience} evaluations{best}"
            )
