"""Label skew by a Dirichlet draw: Hsu et al., 2019."""

import hashlib

import numpy as np
import pytest

from fedcore.errors import ConfigError
from fedcore.partitions import dirichlet

Y = np.arange(2000) % 10


def skew(alpha: float) -> float:
    """The mean share of a client's most frequent label."""
    parts = dirichlet(Y, clients=20, alpha=alpha, seed=1)
    return float(np.mean([np.bincount(Y[part]).max() / len(part) for part in parts]))


def test_a_small_alpha_gives_each_client_few_labels() -> None:
    skews = [skew(alpha) for alpha in (0.05, 0.3, 1, 10, 1e4)]
    assert skews == sorted(skews, reverse=True)
    assert skews[0] > 0.7
    assert skews[-1] < 0.15


@pytest.mark.parametrize("min_size", [1, 5, 20])
def test_every_client_has_the_promised_rows(min_size: int) -> None:
    parts = dirichlet(Y, clients=20, alpha=0.3, min_size=min_size)
    assert min(map(len, parts)) >= min_size


def test_labels_may_be_words() -> None:
    parts = dirichlet(["dog", "cat"] * 30, clients=3, alpha=1.0)
    assert sum(map(len, parts)) == 60


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("nan"), float("inf")])
def test_alpha_must_be_a_number_above_zero(alpha: float) -> None:
    with pytest.raises(ConfigError, match="alpha must be above 0"):
        dirichlet(Y, clients=3, alpha=alpha)


def test_more_rows_than_there_are_cannot_be_promised() -> None:
    with pytest.raises(ConfigError, match="use fewer clients or a smaller min_size"):
        dirichlet(np.arange(30) % 3, clients=3, alpha=0.5, min_size=11)
    with pytest.raises(ConfigError, match="min_size must be 0 or more, got -1"):
        dirichlet(np.arange(30) % 3, clients=3, alpha=0.5, min_size=-1)


def test_a_client_may_be_without_rows_if_that_is_asked_for() -> None:
    parts = dirichlet(Y, clients=1500, alpha=0.05, min_size=0)
    assert min(map(len, parts)) == 0
    assert sum(map(len, parts)) == len(Y)


@pytest.mark.parametrize("alpha", [0.1, 0.5, 2.0])
def test_the_shares_of_a_class_have_the_moments_of_a_dirichlet_draw(
    alpha: float,
) -> None:
    """E[Σ p²] = (α + 1) / (αN + 1), over many draws."""
    clients = 10
    y = np.repeat(np.arange(400), 500)  # each class is a draw
    parts = dirichlet(y, clients=clients, alpha=alpha, min_size=0)
    counts_NC = np.stack([np.bincount(y[part], minlength=400) for part in parts])
    found = ((counts_NC / 500) ** 2).sum(axis=0).mean()
    assert found == pytest.approx((alpha + 1) / (alpha * clients + 1), rel=0.05)


def test_where_no_draw_suffices_the_largest_give_to_the_short() -> None:
    """Beside what the first draws left: only rows of those above a level have moved."""
    clients, least = 600, 2
    parts = dirichlet(Y, clients=clients, alpha=0.1, min_size=least)
    sizes = np.array([len(part) for part in parts])
    assert sizes.min() == least
    assert sizes.sum() == len(Y)
    assert (sizes == least).sum() > 24  # so many were short: drawing on was hopeless
    tops = np.sort(sizes)[::-1]
    assert tops[0] - tops[5] <= 1  # those that gave are cut to one level
    labels = [len(set(Y[part].tolist())) for part in parts]
    assert np.mean(labels) < 2.5  # the skew is still there


def test_a_single_short_client_is_drawn_for_until_the_thousandth_time() -> None:
    parts = dirichlet(np.arange(24) % 2, clients=2, alpha=0.5, min_size=12)
    assert [len(part) for part in parts] == [12, 12]


def test_partitions_of_earlier_releases_are_found_again() -> None:
    """Computed when each client drew again until all had a row."""
    known = {
        (20, 1): "1f49da5bd99e91a2",
        (300, 1): "2578291e4f8b8f30",
        (50, 5): "0b45b550e8b7fbb4",
    }
    for (clients, min_size), digest in known.items():
        parts = dirichlet(Y, clients=clients, alpha=0.3, seed=7, min_size=min_size)
        flat = np.concatenate([[len(part), *part] for part in parts])
        content = flat.astype("<i8").tobytes()
        assert hashlib.blake2b(content, digest_size=8).hexdigest() == digest
