"""Any safetensors file with the right names and shapes is a warm start."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcore.errors import ModelError, SpecMismatchError
from fedcore.params import ParamSpec, Rest
from fedrun.files import (
    load_arrays,
    load_metadata,
    load_model,
    load_model_for,
    save_arrays,
    save_model,
)

W = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
B = np.array([0.5, -0.25, 1.0], np.float32)
SCALE = np.array(1.5, np.float32)
SPEC = ParamSpec.of({"w": W, "scale": SCALE, "b": B})
FLAT = SPEC.flatten({"w": W, "scale": SCALE, "b": B})


def bfloat16(path: Path, arrays: dict[str, Any]) -> None:
    """Writes float32 arrays, whose lower halves are zero, as bfloat16."""
    header, data = {}, b""
    for name, array in arrays.items():
        halves = (np.asarray(array).reshape(-1).view(np.uint32) >> 16).astype("<u2")
        place = [len(data), len(data) + halves.nbytes]
        header[name] = {
            "dtype": "BF16",
            "shape": list(np.shape(array)),
            "data_offsets": place,
        }
        data += halves.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


@pytest.mark.parametrize("order", [("w", "scale", "b"), ("b", "scale", "w")])
@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "bfloat16"])
def test_a_model_is_read_by_names_whatever_their_order_and_precision(
    tmp_path: Path, kind: str, order: tuple[str, ...]
) -> None:
    path, all_ = tmp_path / "m.safetensors", SPEC.unflatten(FLAT)
    whole = {name: np.round(all_[name] * 8) / 8 for name in order}  # exact in all
    if kind == "bfloat16":
        bfloat16(path, whole)
    else:
        save_arrays(path, {n: a.astype(kind) for n, a in whole.items()}, {})
    found = load_model_for(SPEC, path, Rest({}, {}))
    assert SPEC.unflatten(found.flat_D)["scale"].shape == ()
    np.testing.assert_array_equal(found.flat_D, np.round(FLAT * 8) / 8)
    said = () if kind == "float32" else (f"{kind} becomes float32",)
    assert (found.changes, found.is_own) == (said, False)


def test_a_file_of_this_program_is_taken_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    save_model(path, SPEC, FLAT)
    assert load_model_for(SPEC, path).is_own
    other = ParamSpec.of({"b": B, "w": W, "scale": SCALE})
    found = load_model_for(other, path)  # of an app that has another order by now
    assert not found.is_own
    assert other.unflatten(found.flat_D)["w"].tolist() == W.tolist()


@pytest.mark.parametrize(
    ("arrays", "told"),
    [
        ({"w": W, "scale": SCALE}, "tensor 'b' is missing"),
        ({"w": W, "v": B}, "expected tensor 'scale', found 'v'"),
        ({"w": W.T, "v": B}, "tensor 'w' should have shape [3, 4], has [4, 3]"),
        (
            {"w": W.astype(np.int32), "scale": SCALE, "b": B},
            "tensor 'w' should hold floating-point numbers, holds I32",
        ),
        (
            {"w": W, "scale": SCALE, "b": B, "head": B},
            "tensor 'head' is not in the model",
        ),
        (
            {"w": W, "scale": SCALE, "b": B, "base": B},
            "tensor 'base' is not trained, and has other values in the model",
        ),
        (
            {"w": W, "scale": SCALE, "b": B, "again": B + 1},
            "tensors 'b' and 'again' are one in the model",
        ),
    ],
)
def test_a_file_of_another_model_is_told_by_the_first_tensor_that_differs(
    tmp_path: Path, arrays: dict[str, Any], told: str
) -> None:
    spec = ParamSpec.of(
        SPEC.unflatten(FLAT), frozen="f", digests=(("base", "01234567"),)
    )
    path, rest = tmp_path / "m", Rest({"base": 2 * B, "seen": B}, {"again": "b"})
    save_arrays(path, {name: np.array(each) for name, each in arrays.items()}, {})
    with pytest.raises(SpecMismatchError) as caught:
        load_model_for(spec, path, rest, "the app's model")
    assert str(caught.value) == f"{path} and the app's model differ: {told}"


def test_what_is_not_trained_may_be_there_as_far_as_it_is_the_same(
    tmp_path: Path,
) -> None:
    base = np.array([1 / 3, 2e-3, 700], np.float32)
    spec = ParamSpec.of({"b": B}, frozen="f", digests=(("base", "01234567"),))
    rest = Rest({"base": base, "steps": np.array(7)}, {"again": "b"})
    path = tmp_path / "m"
    for kind in ("float16", "float32", "float64"):
        arrays = {
            "again": B,  # a tied tensor may be there by its second name alone
            "base": base.astype(kind),
            "steps": np.array(3),  # a counter that nothing reads
        }
        save_arrays(path, arrays, {})
        found = load_model_for(spec, path, rest)
        assert found.flat_D.tolist() == B.tolist()


def test_a_file_without_the_apps_order_has_its_own(tmp_path: Path) -> None:
    path = tmp_path / "m"
    save_arrays(path, {"b": B, "a": SCALE}, {})
    spec, flat_D = load_model(path)
    assert [each.name for each in spec.tensors] == ["a", "b"]
    assert flat_D.tolist() == [SCALE, *B]
    save_arrays(path, {"b": B, "a": np.arange(3)}, {})
    with pytest.raises(ModelError, match="'a' has dtype I64; only floating-point"):
        load_model(path)
    save_arrays(path, {}, {"a": "text"})
    with pytest.raises(ModelError, match="no tensors"):
        load_model(path)
    assert load_metadata(path) == {"a": "text"}


KINDS = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?", "c8"]


def test_files_are_those_of_the_safetensors_library(tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    arrays = {kind: np.arange(6).reshape(2, 3).astype(kind) for kind in KINDS}
    arrays |= {"none": np.zeros((0, 3), np.float32), "one": np.array(7.0)}
    arrays["turned"] = np.arange(6.0).reshape(2, 3).T
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    save_arrays(ours, arrays, {"é": "ü"})
    save_file({n: np.asarray(a, order="C") for n, a in arrays.items()}, theirs)
    for found in (load_file(ours), load_arrays(ours)[0], load_arrays(theirs)[0]):
        assert found.keys() == arrays.keys()
        for name, array in arrays.items():
            assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
            assert found[name].tolist() == array.tolist()
    assert load_arrays(ours)[1] == {"é": "ü"}


@pytest.mark.parametrize("cut", [0, 5, 40, 1000, -1])
def test_a_damaged_file_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "m.safetensors"
    save_model(path, SPEC, FLAT)
    path.write_bytes(path.read_bytes()[:cut] if cut < 1000 else b"\xff" * 99)
    with pytest.raises(ModelError, match="not a safetensors file"):
        load_model(path)
