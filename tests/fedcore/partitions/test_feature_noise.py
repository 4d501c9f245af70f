"""Feature skew by noise: Li et al., ICDE 2022, §4.2."""

import numpy as np
import pytest

from fedcore.errors import ConfigError
from fedcore.partitions import feature_noise

X = np.zeros((50, 20, 20), np.uint8)


def noisy(index: int, sigma: float = 0.4, seed: int = 0) -> np.ndarray:
    return feature_noise(X, index=index, clients=4, sigma=sigma, seed=seed)


def test_noise_grows_with_the_place_of_the_client() -> None:
    found = [float(noisy(index).std()) for index in range(4)]
    assert found == pytest.approx([0.1, 0.2, 0.3, 0.4], rel=0.03)
    assert noisy(1).dtype == np.float32


def test_a_client_sees_the_same_noise_with_each_call_and_others_see_another() -> None:
    assert (noisy(1) == noisy(1)).all()
    assert not (noisy(1) == noisy(1, seed=1)).any()
    assert abs(np.corrcoef(noisy(1).ravel(), noisy(2).ravel())[0, 1]) < 0.03


def test_without_noise_features_are_what_they_were() -> None:
    x = np.arange(6.0).reshape(2, 3)
    assert feature_noise(x, index=0, clients=1, sigma=0.0).tolist() == x.tolist()


@pytest.mark.parametrize(("index", "sigma"), [(-1, 0.1), (4, 0.1), (0, -1.0)])
def test_what_is_out_of_range_is_refused(index: int, sigma: float) -> None:
    with pytest.raises(ConfigError, match=r"must be 0 (to 3|or more and finite)"):
        noisy(index, sigma)
