"""An adapter as a folder, written where neither torch nor PEFT is needed."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from fedcore.errors import ModelError
from fedcore.params import ADAPTER, NO_REST, ParamSpec, Rest
from fedrun.files import load_model, load_rest, save_model
from fedview.adapter import save_adapter

B, A = np.arange(6, dtype=np.float32).reshape(3, 2), np.ones((2, 3), np.float32)
SPEC = ParamSpec.of({"layer.B.default": B})
ABOUT = {
    "config": {"peft_type": "LORA", "r": 2},
    "names": {"layer.A.default": "layer.A", "layer.B.default": "layer.B"},
}
REST = Rest({"layer.A.default": A}, {}, {ADAPTER: json.dumps(ABOUT)})


def test_what_is_told_of_a_model_comes_back_from_its_file(tmp_path: Path) -> None:
    save_model(tmp_path / "m", SPEC, SPEC.flatten({"layer.B.default": B}), rest=REST)
    rest = load_rest(tmp_path / "m")
    assert rest.about == REST.about
    assert [*rest.frozen] == ["layer.A.default"]
    spec, flat_D = load_model(tmp_path / "m")
    save_adapter(tmp_path / "adapter", spec, flat_D, rest, "runs/x")
    arrays = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    assert sorted(arrays) == ["layer.A", "layer.B"]
    assert arrays["layer.B"].tolist() == B.tolist()
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert config == ABOUT["config"]


def test_a_model_that_is_no_adapter_is_told_so(tmp_path: Path) -> None:
    flat_D = SPEC.flatten({"layer.B.default": B})
    with pytest.raises(ModelError, match="runs/x: its model is no PEFT adapter"):
        save_adapter(tmp_path / "adapter", SPEC, flat_D, NO_REST, "runs/x")
    assert not (tmp_path / "adapter").exists()
