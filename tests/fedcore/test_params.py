"""The flat vector, its spec, and digests."""

import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore.errors import ModelError, SpecMismatchError
from fedcore.params import ParamSpec, content_digest, digest

TENSORS: dict[str, Any] = {
    "hidden.weight": np.arange(6, dtype=np.float64).reshape(3, 2),
    "hidden.bias": np.array([6, 7, 8], np.float32),
    "scale": np.array(9.0, np.float32),
    "none": np.empty((0, 4), np.float32),
}
SPEC = ParamSpec.of(TENSORS)
shapes = st.lists(
    st.lists(st.integers(0, 4), max_size=3).map(tuple), min_size=1, max_size=4
).filter(lambda all_of_them: any(map(all, all_of_them)))  # some value is there


def changed(**tensors: Any) -> ParamSpec:
    """The spec with some tensors of another shape."""
    return ParamSpec.of({**TENSORS, **{k: np.zeros(v) for k, v in tensors.items()}})


def test_a_spec_knows_where_each_tensor_lies() -> None:
    assert SPEC.dim == 10
    assert SPEC.sizes == (6, 3, 1, 0)
    assert [tensor.offset for tensor in SPEC.tensors] == [0, 6, 9, 10]
    assert SPEC.tensors[1].slice == slice(6, 9)


def test_frozen_tensors_that_differ_are_named_and_the_spec_tells_their_digests() -> (
    None
):
    mine, theirs, old = (
        ParamSpec.of(TENSORS, frozen=frozen, digests=digests)
        for frozen, digests in (
            ("1", (("a", "x"), ("b", "y"), ("c", "z"))),
            ("2", (("a", "x"), ("b", "n"), ("c", "n"))),
            ("3", ()),
        )
    )
    assert ParamSpec.from_json(mine.to_json()) == mine
    assert mine.first_difference(theirs) == (
        "the frozen weights are not the same: tensor 'b' differs, and 1 more"
    )
    assert mine.first_difference(old) == "the frozen weights are not the same"
    assert "digests" not in old.to_json()


def test_flattening_keeps_the_order_and_yields_float32() -> None:
    flat_D = SPEC.flatten(TENSORS)
    assert flat_D.dtype == np.float32
    assert flat_D.tolist() == list(range(10))


def test_arrays_are_flattened_by_their_names_whatever_their_order() -> None:
    reordered = dict(reversed(list(TENSORS.items())))
    assert SPEC.flatten(reordered).tolist() == SPEC.flatten(TENSORS).tolist()


@given(shapes, st.integers(0, 2**16))
def test_unflattening_undoes_flattening(
    shapes: list[tuple[int, ...]], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    tensors = {
        f"layer.{i}": rng.standard_normal(shape).astype(np.float32)
        for i, shape in enumerate(shapes)
    }
    spec = ParamSpec.of(tensors)
    again = spec.unflatten(spec.flatten(tensors))
    assert list(again) == list(tensors)
    for name, tensor in tensors.items():
        assert again[name].shape == tensor.shape
        assert again[name].tobytes() == tensor.tobytes()


def test_unflattened_tensors_are_views() -> None:
    flat_D = SPEC.flatten(TENSORS)
    SPEC.unflatten(flat_D)["hidden.bias"][0] = 100
    assert flat_D[6] == 100


@given(shapes, st.text(max_size=5))
def test_a_spec_comes_back_equal_from_json(
    shapes: list[tuple[int, ...]], frozen: str
) -> None:
    tensors = {f"ü{i}": np.zeros(shape) for i, shape in enumerate(shapes)}
    spec = ParamSpec.of(tensors, frozen=frozen)
    again = ParamSpec.from_json(spec.to_json())
    assert again == spec
    assert again.first_difference(spec) is None


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (ParamSpec.of({"w": np.zeros(2)}), "expected tensor 'hidden.weight'"),
        (
            changed(**{"hidden.bias": 4}),
            r"'hidden.bias' should have shape \[3\], has \[4\]",
        ),
        (changed(more=1), "tensor 'more' is not in the federation's model"),
        (
            ParamSpec.of({"hidden.weight": np.zeros((3, 2))}),
            "tensor 'hidden.bias' is missing",
        ),
        (ParamSpec.of(TENSORS, frozen="abc"), "the frozen weights are not the same"),
    ],
)
def test_two_models_that_differ_are_told_apart_by_the_first_difference(
    other: ParamSpec, difference: str
) -> None:
    with pytest.raises(SpecMismatchError, match=difference):
        SPEC.require(other, "this model")


def test_a_model_needs_tensors_of_floating_point_numbers() -> None:
    with pytest.raises(ModelError, match="no tensors to train"):
        ParamSpec.of({})
    with pytest.raises(ModelError, match="tensor 'steps' has dtype int64"):
        ParamSpec.of({"w": np.zeros(2), "steps": np.zeros(2, np.int64)})


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", '{"tensors": [["w"]], "frozen": ""}', "{"]
)
def test_junk_is_not_a_model_description(text: str) -> None:
    with pytest.raises(SpecMismatchError, match="not a model description"):
        ParamSpec.from_json(text)


def test_a_digest_names_the_bytes_of_a_model() -> None:
    flat_D = np.array([1.0, -2.0], np.float32)
    expected = hashlib.sha256(bytes.fromhex("0000803f000000c0")).hexdigest()[:32]
    assert digest(flat_D) == content_digest(flat_D.tobytes()) == expected
    assert digest(np.array([1.0, 9.0, -2.0, 9.0], np.float32)[::2]) == expected


def test_minus_zero_is_another_model_than_zero() -> None:
    assert digest(np.array([0.0], np.float32)) != digest(np.array([-0.0], np.float32))


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, 3e38])
def test_the_tensor_with_an_odd_value_is_named(odd: float) -> None:
    spec = ParamSpec.of({"none": np.zeros(0), "a": np.zeros(2), "b": np.zeros((2, 2))})
    flat_D = np.array([1, -2, 3, 4, odd, 5], np.float32)
    assert spec.beyond(flat_D, 1e30) == "b"
    assert spec.beyond(flat_D[::-1], 1e30) == "a"
    assert spec.beyond(np.ones(6, np.float32)) is None
    assert (spec.beyond(flat_D) is None) == (odd == 3e38)


@pytest.mark.parametrize(
    "name", ["", "__metadata__", "\x1b[2J", "a\n", "\ud800", 7, None]
)
def test_a_name_that_cannot_stand_everywhere_is_refused(name: Any) -> None:
    with pytest.raises(ModelError, match="of a tensor: expected printable text"):
        ParamSpec.of({"w": np.zeros(2), name: np.zeros(1)})
    with pytest.raises(ModelError, match="of a tensor: expected printable text"):
        ParamSpec.of({"w": np.zeros(2)}, digests=((name, "00"),))


def test_a_model_of_empty_tensors_has_nothing_to_train() -> None:
    with pytest.raises(ModelError, match="has no values to train"):
        ParamSpec.of({"a": np.zeros(0), "b": np.zeros((3, 0))})


def test_a_tensor_with_the_name_of_a_companions_is_refused() -> None:
    spec = ParamSpec.of({"w": np.zeros(2), "control/w": np.zeros(2)})
    with pytest.raises(ModelError, match="'control/w' has the name of one that"):
        spec.with_companions(["control"])
