"""The Result of a strategy, from the records of a run."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fedcore.coordinator.events import Decided, Enrolled, Evaluated, Stepped
from fedcore.protocol import Verdict
from fedflower.app.library import flwr
from fedrun.journal.store import Row

MetricRecord = Any  # flwr's type, like the others
Aggregate = Callable[[list[Any], str], MetricRecord]
Told = tuple[Mapping[str, float], int]  # metrics, and the number of examples


def weighted_mean() -> Aggregate:
    """Returns Flower's own mean of metrics, weighted by the number of examples."""
    utils = flwr("flwr.serverapp.strategy.strategy_utils")
    aggregate: Aggregate = utils.aggregate_metricrecords
    return aggregate


class Metrics:
    """The metrics of a run by version; all of them follow from its records."""

    def __init__(
        self,
        weight: str,
        train: Aggregate | None = None,
        evaluate: Aggregate | None = None,
    ) -> None:
        """Begins without any metric.

        Args:
            weight: the name of the number of examples.
            train: the mean of the nodes' training metrics.
            evaluate: the mean of the nodes' evaluation metrics.
        """
        self._weight = weight
        self._means = train or weighted_mean(), evaluate or weighted_mean()
        self._servers: set[str] = set()  # cids of evaluators
        self._waiting: list[Told] = []  # metrics of updates that are in no version yet
        self.trained: dict[int, list[Told]] = {}
        self.nodes: dict[int, list[Told]] = {}
        self.server: dict[int, Mapping[str, float]] = {}

    def note(self, records: Iterable[Row]) -> None:
        """Collects the metrics of records, in their order."""
        for record in records:
            match record:
                case Enrolled() if record.role == "evaluator":
                    self._servers.add(record.cid)
                case Decided() if record.verdict is Verdict.ACCEPTED:
                    self._waiting.append((record.metrics or {}, record.samples))
                case Stepped():
                    self.trained[record.version], self._waiting = self._waiting, []
                case Evaluated() if record.cid in self._servers:
                    self.server[record.version] = record.values
                case Evaluated():
                    told = record.values, record.samples
                    self.nodes.setdefault(record.version, []).append(told)
                case _:
                    pass

    def result(self, arrays: Any) -> Any:
        """Returns Flower's Result.

        Args:
            arrays: the last model.
        """
        train, evaluate = self._means
        found = flwr("flwr.serverapp.strategy").Result()
        found.arrays = arrays
        record = flwr("flwr.app").MetricRecord
        for version in sorted(self.trained):
            found.train_metrics_clientapp[version] = self._mean(
                self.trained[version], train
            )
        for version in sorted(self.nodes):
            found.evaluate_metrics_clientapp[version] = self._mean(
                self.nodes[version], evaluate
            )
        for version in sorted(self.server):
            values = dict(self.server[version])
            found.evaluate_metrics_serverapp[version] = record(values)
        return found

    def _mean(self, told: list[Told], aggregate: Aggregate) -> MetricRecord:
        """Returns the mean of the metrics that all of the updates have."""
        app = flwr("flwr.app")
        if not told:
            return app.MetricRecord()
        common = set.intersection(*(set(metrics) for metrics, _ in told))
        contents = [
            app.RecordDict(
                {
                    "metrics": app.MetricRecord(
                        {
                            **{name: metrics[name] for name in sorted(common)},
                            self._weight: samples,
                        }
                    )
                }
            )
            for metrics, samples in told
        ]
        return aggregate(contents, self._weight)
