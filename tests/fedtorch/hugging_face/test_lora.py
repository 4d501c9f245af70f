"""LoRA with a frozen A: updates of B add up, and an export is what PEFT loads."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import latecomer
from fedclient.commands import write_model
from fedcore.errors import ModelError
from fedcore.params import ADAPTER
from fedcore.rng import Key
from fedrun.files import load_rest
from fedserver.cli import main
from fedtorch.hugging_face import HuggingFaceWorkload
from tests.fedtorch.hugging_face.tiny import TEXT, gpt2, needs, with_adapter

pytestmark = [
    pytest.mark.needs(*needs),
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # of peft, to transformers
]
LAYER = "base_model.model.transformer.h.0.attn.c_attn"

workload = HuggingFaceWorkload(
    model=with_adapter, train_data=lambda client: TEXT, test_data=lambda: TEXT
)


def part(model: Any, w_D: Any, letter: str) -> Any:
    """A or B of the first layer."""
    tensors = {**model.rest().frozen, **model.spec.unflatten(w_D)}
    return tensors[f"{LAYER}.lora_{letter}.default.weight"].astype(float)


def gap(lora: Any, weights: list[float]) -> float:
    """How far Σ w_i B_i A_i is from the product of the means, relative to it."""
    flat = HuggingFaceWorkload(
        model=with_adapter, train_data=lambda client: TEXT, lora=lora
    ).flat()
    share = np.array(weights) / sum(weights)
    start = flat.initial(Key.root(0))
    rng = np.random.default_rng(len(weights))
    models = [start + rng.standard_normal(len(start)).astype(np.float32) for _ in share]
    mean = np.tensordot(share, np.array(models), 1).astype(np.float32)
    exact = sum(
        each * part(flat, w, "B") @ part(flat, w, "A")
        for each, w in zip(share, models, strict=True)
    )
    product = part(flat, mean, "B") @ part(flat, mean, "A")
    return float(np.linalg.norm(product - exact) / np.linalg.norm(exact))


@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=5))
def test_weighted_sums_of_updates_are_exact_with_a_frozen_a(
    weights: list[float],
) -> None:
    assert gap("b", weights) < 1e-6


def test_weighted_sums_are_wrong_where_both_are_trained() -> None:
    assert gap("both", [1.0, 2.0, 3.0]) > 0.1


def test_all_clients_draw_the_same_a_and_another_seed_another_one() -> None:
    first = workload.flat()
    torch.rand(7)  # what a client may have drawn before
    again = workload.flat()
    assert again.spec == first.spec
    other = HuggingFaceWorkload(
        model=with_adapter, train_data=lambda client: TEXT, seed=1
    )
    said = first.spec.first_difference(other.flat().spec)
    assert said is not None
    assert "lora_A" in said


def test_half_of_the_bytes_go() -> None:
    both = HuggingFaceWorkload(
        model=with_adapter, train_data=lambda c: TEXT, lora="both"
    )
    a, b = 2 * 2 * 16, 2 * 48 * 2
    assert (workload.flat().spec.dim, both.flat().spec.dim) == (b, a + b)


def test_an_adapter_that_was_trained_keeps_its_a() -> None:
    def trained() -> Any:
        model = with_adapter()
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                torch.nn.init.constant_(parameter, 0.5)
        return model

    flat = HuggingFaceWorkload(model=trained, train_data=lambda client: TEXT).flat()
    assert (part(flat, flat.initial(Key.root(0)), "A") == 0.5).all()


def test_a_word_that_is_no_kind_of_lora_is_refused() -> None:
    wrong: Any = "a"
    with pytest.raises(ModelError, match="'a' is none of b, both"):
        HuggingFaceWorkload(
            model=with_adapter, train_data=lambda c: TEXT, lora=wrong
        ).flat()


def run(folder: Path, model: Any = with_adapter) -> None:
    own = HuggingFaceWorkload(model=model, train_data=lambda client: TEXT)
    algorithm = {"kind": "fed_avg", "buffer": 2}
    client = {"kind": "local_adam", "lr": 0.05, "steps": 4, "batch": 8}
    config = {
        "algorithm": {**algorithm, "client": client},
        "simulate": {"clients": 2},
        "stop": {"versions": 2},
    }
    latecomer.run(config, own, folder=folder)


def export(*arguments: Any) -> tuple[int, str]:
    found = CliRunner().invoke(main, ["export", *map(str, arguments)])
    return found.exit_code, found.output


@pytest.mark.parametrize("which", [(), ("--which", "exact")])
def test_peft_loads_an_export_and_gives_the_logits_of_the_federated_model(
    tmp_path: Path, which: tuple[str, ...]
) -> None:
    from importlib import import_module

    run(tmp_path / "run")
    code, said = export(
        tmp_path / "run", "--adapter", "-o", tmp_path / "adapter", *which
    )
    assert (code, "the adapter of" in said) == (0, True)
    peft: Any = import_module("peft")
    loaded = peft.PeftModel.from_pretrained(gpt2(), tmp_path / "adapter").eval()
    federated = with_adapter().eval()
    flat = workload.flat()
    model = latecomer.Results(tmp_path / "run").model("last")
    tensors = {k: torch.from_numpy(v.copy()) for k, v in model.items()}
    federated.load_state_dict(tensors, strict=False)
    assert {t.name for t in flat.spec.tensors} <= {*tensors}
    tokens = torch.from_numpy(TEXT.astype(np.int64))
    with torch.no_grad():
        ours, theirs, base = (
            each(input_ids=tokens).logits for each in (federated, loaded, gpt2().eval())
        )
    assert torch.equal(ours, theirs)
    assert not torch.allclose(ours, base)


def test_the_file_of_version_0_knows_the_adapter_and_leaves_the_base_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{Path(__file__).resolve()}:workload"
    write_model(name, tmp_path / "model.safetensors", 0)
    rest = load_rest(tmp_path / "model.safetensors")
    assert ADAPTER in rest.about
    assert [*rest.frozen] == [
        f"{LAYER.replace('0', n)}.lora_A.default.weight" for n in "01"
    ]
    assert (tmp_path / "model.safetensors").stat().st_size < 16_000


def test_what_cannot_be_exported_is_told_in_a_sentence(tmp_path: Path) -> None:
    run(tmp_path / "whole", gpt2)
    code, said = export(tmp_path / "whole", "--adapter", "-o", tmp_path / "adapter")
    assert code
    assert "its model is no PEFT adapter" in said
    assert not (tmp_path / "adapter").exists()

    def beside() -> Any:
        model = with_adapter()
        model.get_base_model().transformer.ln_f.requires_grad_(True)
        return model

    run(tmp_path / "more", beside)
    code, said = export(tmp_path / "more", "--adapter", "-o", tmp_path / "adapter")
    assert code
    assert "ln_f.weight' is trained and is not a part of the adapter" in said
    code, said = export(tmp_path / "more", "--adapter")
    assert code
    assert "Missing option '-o' / '--out'" in said
