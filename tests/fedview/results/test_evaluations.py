"""The means of what clients measured on data of their own."""

import math

from fedcore.coordinator.events import Evaluated
from fedcore.protocol import MOST_COUNTED
from fedview.results.evaluations import _merge


def evaluated(samples: int, **values: float) -> Evaluated:
    return Evaluated(at=0.0, cid="a", version=0, values=values, samples=samples)


def test_the_mean_of_clients_is_finite_whatever_they_claim() -> None:
    largest = 1.5e308
    told = [
        evaluated(MOST_COUNTED, loss=largest),
        evaluated(2**64 - 1, loss=largest),
        evaluated(1, loss=1.0),
    ]
    merged = _merge(told)
    assert math.isclose(merged["loss"], largest)
    assert merged["loss_n"] == MOST_COUNTED + 2**64


def test_a_client_counts_by_its_samples_where_it_has_a_number() -> None:
    told = [
        evaluated(3, loss=1.0, auc=0.5),
        evaluated(1, loss=3.0),
        evaluated(0, auc=0.9),
    ]
    assert _merge(told) == {"loss": 1.5, "loss_n": 4, "auc": 0.5, "auc_n": 3}
    alike = [evaluated(0, loss=1.0), evaluated(0, loss=2.0)]
    assert _merge(alike) == {"loss": 1.5, "loss_n": 0}


def test_a_metric_that_has_the_name_of_a_column_is_not_lost() -> None:
    merged = _merge([evaluated(2, seconds=1.5, version=7.0, loss=1.0)])
    assert list(merged)[::2] == ["seconds (metric)", "version (metric)", "loss"]
