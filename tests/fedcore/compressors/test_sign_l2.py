"""Scaled sign with the norm kept: Tang et al., ICML 2019."""

from typing import Literal

import numpy as np
import pytest
from pydantic import ValidationError

from fedcore import payloads
from fedcore.compressors import ErrorFeedback, SignL2
from fedcore.rng import Key
from fedcore.typing import Vector


def decoded(
    delta_D: Vector,
    layout: payloads.Layout = (),
    per: Literal["tensor", "vector"] = "tensor",
) -> Vector:
    encode = SignL2(per=per).build(layout or delta_D.shape).encode
    vector: Vector = payloads.decode(encode(delta_D, None, Key.root(0))[0])
    return vector


def test_a_value_becomes_its_sign_times_the_root_mean_square() -> None:
    delta_D = np.array([7.0, -1.0, -5.0, 5.0], np.float32)  # (49 + 1 + 25 + 25) / 4
    assert decoded(delta_D).tolist() == [5.0, -5.0, -5.0, 5.0]


def test_each_tensor_has_a_scale_or_all_have_one() -> None:
    delta_D = np.array([1.0, -7.0, 6.0, 8.0, -7.0, 1.0], np.float32)
    parts = decoded(delta_D, (2, 4)).tolist()
    root = float(np.float32(37.5**0.5))
    assert parts == pytest.approx([5.0, -5.0, root, root, -root, root])
    whole = decoded(delta_D, (2, 4), "vector")
    assert np.abs(whole).tolist() == pytest.approx([(200 / 6) ** 0.5] * 6)


def test_the_norm_is_kept() -> None:
    delta_D = np.random.default_rng(0).laplace(size=1000).astype(np.float32)
    assert np.linalg.norm(decoded(delta_D)) == pytest.approx(np.linalg.norm(delta_D))


def test_a_sparse_vector_comes_back_with_twice_its_square_as_error() -> None:
    delta_D = np.zeros(10_000, np.float32)
    delta_D[7] = 3
    lost = np.square(decoded(delta_D) - delta_D).sum() / 9
    assert lost == pytest.approx(2 - 2 / 100, rel=1e-4)  # 2 - 2/√d


@pytest.mark.parametrize("size", [1e-38, 1e-20, 1e25, 1e38])
def test_the_norm_of_tiny_and_of_huge_values_is_finite(size: float) -> None:
    delta_D = np.full(4, size, np.float32)
    assert decoded(delta_D).tolist() == pytest.approx(delta_D.tolist(), rel=1e-6)


def test_it_is_refused_in_a_memory() -> None:
    assert SignL2().bias == "neither"
    with pytest.raises(ValidationError, match=r"sign_l2 is neither with.*sign_l1"):
        ErrorFeedback(inner=SignL2())
