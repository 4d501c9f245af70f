"""Files of arrays and models: what is written is what is read."""

from pathlib import Path

import numpy as np
import pytest

from fedcore.params import ParamSpec
from fedrun.files import load_arrays, load_model, save_arrays, save_model

SHAPES = [(), (1,), (0,), (3, 0), (2, 3)]


@pytest.mark.parametrize("shape", SHAPES)
def test_an_array_keeps_its_shape_in_a_file(
    shape: tuple[int, ...], tmp_path: Path
) -> None:
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 7
    save_arrays(tmp_path / "a", {"a": array, "turned": array.T}, {})
    arrays, _ = load_arrays(tmp_path / "a")
    for name, expected in (("a", array), ("turned", array.T)):
        assert arrays[name].shape == expected.shape
        np.testing.assert_array_equal(arrays[name], expected)


def test_a_model_keeps_the_shapes_of_its_tensors_in_a_file(tmp_path: Path) -> None:
    tensors = {str(shape): np.full(shape, 2.5) for shape in SHAPES}
    spec = ParamSpec.of(tensors)
    save_model(tmp_path / "m", spec, spec.flatten(tensors))
    read, flat_D = load_model(tmp_path / "m")
    assert read == spec
    assert {n: a.shape for n, a in read.unflatten(flat_D).items()} == {
        str(shape): shape for shape in SHAPES
    }
