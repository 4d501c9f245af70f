"""The records of Flower as flat vectors."""

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore.errors import ModelError, SpecMismatchError
from fedcore.merging import MEAN, PARAMETER
from fedflower.app.records import RecordLayout, read_array, write_array

with suppress(ImportError):  # then the tests are skipped
    from flwr import app as flwr
pytestmark = pytest.mark.needs("flwr")


def record(**arrays: Any) -> Any:
    return flwr.ArrayRecord(
        {
            name.replace("__", "."): flwr.Array(np.asarray(a))
            for name, a in arrays.items()
        }
    )


def with_statistics() -> Any:
    return record(
        bn__running_mean=np.array([1.0, 2.0], np.float32),
        bn__running_var=np.array([3.0, 4.0], np.float32),
        bn__num_batches_tracked=np.array(7),
        w=np.ones((2, 3), np.float32),
    )


def test_parameters_come_first_then_batch_statistics_and_counters_stay() -> None:
    layout = RecordLayout.of(with_statistics())
    merges = {each.name: each.merge for each in layout.spec.tensors}
    assert list(merges) == ["w", "bn.running_mean", "bn.running_var"]
    assert merges["w"] == PARAMETER
    assert merges["bn.running_mean"] == MEAN
    assert merges["bn.running_var"].mean == "bn.running_mean"
    assert list(layout.first) == ["bn.num_batches_tracked"]


def test_the_mean_of_two_flat_vectors_merges_variances() -> None:
    first = with_statistics()
    second = record(
        bn__running_mean=np.array([3.0, 2.0], np.float32),
        bn__running_var=np.array([5.0, 4.0], np.float32),
        bn__num_batches_tracked=np.array(9),
        w=np.zeros((2, 3), np.float32),
    )
    layout = RecordLayout.of(first)
    mean_D = (layout.flatten(first) + layout.flatten(second)) * np.float32(0.5)
    merged = layout.record(mean_D)
    np.testing.assert_allclose(merged["bn.running_mean"].numpy(), [2, 2])
    # The mean of the variances, and the variance of the means: 4 + 1, 4 + 0.
    np.testing.assert_allclose(merged["bn.running_var"].numpy(), [5, 4])


def test_what_stays_with_the_client_comes_back_with_its_model() -> None:
    layout = RecordLayout.of(with_statistics())
    trained = with_statistics()
    trained["bn.num_batches_tracked"] = flwr.Array(np.array(2**60 + 1))
    own = layout.local(trained)
    back = layout.record(layout.flatten(trained), own)
    assert back["bn.num_batches_tracked"].numpy() == 2**60 + 1
    assert list(back) == list(trained)  # in the order of the app


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@given(values=st.lists(st.floats(-1000, 1000, width=16), min_size=1, max_size=5))
def test_a_record_has_its_types_again(dtype: str, values: list[float]) -> None:
    array = np.array(values, dtype)
    layout = RecordLayout.of(record(w=array))
    back = layout.record(layout.flatten(record(w=array)))["w"]
    assert back.dtype == dtype
    np.testing.assert_array_equal(back.numpy(), array)


def bfloat16(*values: float) -> Any:
    return write_array(flwr.Array, np.array(values, np.float32), "bfloat16")


def test_bfloat16_is_read_and_written() -> None:
    array = bfloat16(1.0, -2.5, 3.140625)
    assert read_array("w", array).dtype == "V2"
    layout = RecordLayout.of(flwr.ArrayRecord({"w": array}))
    flat_D = layout.flatten(flwr.ArrayRecord({"w": array}))
    np.testing.assert_array_equal(flat_D, np.array([1, -2.5, 3.140625], np.float32))
    back = layout.record(flat_D)["w"]
    assert (back.dtype, back.shape, back.data) == ("bfloat16", (3,), array.data)


def test_bfloat16_rounds_to_the_nearest_ties_to_even() -> None:
    step = 2.0**-7  # between 1 and 2
    values = 1 + step * np.array([0.5, 1.5, 0.51, np.nan])
    array = bfloat16(*values)
    layout = RecordLayout.of(flwr.ArrayRecord({"w": array}))
    flat_D = layout.flatten(flwr.ArrayRecord({"w": array}))
    np.testing.assert_array_equal(flat_D[:3], 1 + step * np.array([0, 2, 1]))
    assert np.isnan(flat_D[3])


def test_scalars_and_empty_arrays_keep_their_shapes() -> None:
    given = record(scale=np.float32(2.5), none=np.zeros((0, 3), np.float32))
    layout = RecordLayout.of(given)
    back = layout.record(layout.flatten(given))
    assert back["scale"].numpy() == np.float32(2.5)
    assert back["scale"].shape == ()
    assert back["none"].shape == (0, 3)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"v": np.ones(2)}, "array 'v' is not in the federation's model"),
        ({}, "array 'w' is missing"),
        ({"w": np.ones(3)}, r"array 'w' should have shape \[2\], has \[3\]"),
    ],
)
def test_other_arrays_are_refused_by_name(other: Any, words: str) -> None:
    layout = RecordLayout.of(record(w=np.ones(2)))
    with pytest.raises(SpecMismatchError, match=f"client-1 returned: {words}"):
        layout.flatten(record(**other), "client-1 returned")


def test_whole_numbers_in_place_of_weights_are_refused() -> None:
    layout = RecordLayout.of(record(w=np.ones(2)))
    with pytest.raises(ModelError, match="array 'w' has dtype int64; expected float64"):
        layout.flatten(record(w=np.array([1, 2])))


def test_a_record_without_weights_is_no_model() -> None:
    with pytest.raises(ModelError, match="no tensors to train"):
        RecordLayout.of(record(steps=np.array([1])))


def test_words_are_no_numbers() -> None:
    with pytest.raises(
        ModelError, match=r"array 'names' has dtype <U1; expected float"
    ):
        RecordLayout.of(record(names=np.array(["a"])))


def test_bytes_of_another_library_are_refused() -> None:
    array = flwr.Array("float32", (1,), "other.library", b"junk")
    with pytest.raises(ModelError, match="array 'w' cannot be read"):
        RecordLayout.of(flwr.ArrayRecord({"w": array}))
