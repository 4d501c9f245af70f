"""Code in README and docs runs, or is the very text of a file."""

import re
from functools import cache
from pathlib import Path

import pytest
import yaml

import latecomer
from fedclient.device.conditions.config import read_conditions
from fedcore.model import FlatModel
from fedcore.params import digest
from fedcore.recipes import Latecomer
from fedcore.rng import Key
from fedcore.training import Trainer, initial_model
from fedcore.workload import Client
from fedrun.app import load_app
from fedrun.config import parse_config
from fedstudies.codecs.pairs import pairs_of, plain
from tests.docs.pages import PAGES, ROOT, Block, all_blocks

# What a block may be. Another language is a mistake, or wants a test here.
TESTED = {"python", "yaml", "console", "sh"}
SHOWN = {"", "text"}
CONDITIONS = "deploy/edge/device.yaml"  # of a device, and no config of a federation
TUTORIAL = ROOT / "examples" / "tutorial"
LONGEST = 40  # lines of a user's file


def test_every_block_is_of_a_kind_that_is_known() -> None:
    for block in all_blocks():
        assert block.language in TESTED | SHOWN, block


@pytest.mark.parametrize("block", all_blocks("python"), ids=str)
def test_python_runs_or_is_the_text_of_a_file(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if block.source is not None:
        assert block.text == (ROOT / block.source).read_text(encoding="utf-8")
        return
    monkeypatch.chdir(tmp_path)
    exec(compile(block.text, str(block), "exec"), {"__name__": "page"})


@pytest.mark.parametrize("block", all_blocks("yaml"), ids=str)
def test_yaml_is_a_config(block: Block) -> None:
    if block.source is not None:
        assert block.text == (ROOT / block.source).read_text(encoding="utf-8")
    if block.source == CONDITIONS:
        read_conditions(ROOT / block.source)
        return
    raw = yaml.safe_load(block.text)
    assert isinstance(raw, dict)
    config = parse_config(raw, str(block), block.text)
    config.algorithm.build(users_model().spec)  # names tensors of it, if any


@cache
def users_model() -> FlatModel:
    """The model of the file that the README shows."""
    pytest.importorskip("torch")
    app = ROOT / "fedsim" / "templates" / "torch" / "my_app.py"
    return load_app(f"{app}:workload").flat()


def test_codecs_in_the_text_name_tensors_of_the_users_model() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    spans = re.findall(r"`--uplink '(\w+:[^`]*)'`", text)
    assert spans
    config = parse_config({})
    for span in spans:
        _, pair = pairs_of(config, [span])
        told = {"kind": "latecomer", "uplink": plain(pair.uplink)}
        parse_config({"algorithm": told}).algorithm.build(users_model().spec)


def test_a_users_file_is_short() -> None:
    files = sorted(ROOT.glob("fedsim/templates/*/my_app.py"))
    assert files
    for file in files:
        lines = file.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= LONGEST, f"{file}: {len(lines)} lines"


def test_the_loop_in_the_docs_trains() -> None:
    """The tutorial's, whose text is on its page."""
    pytest.importorskip("torch")
    workload = load_app(f"{TUTORIAL / 'my_app.py'}:workload")
    model = workload.flat()
    public_D = initial_model(model, 0)
    trainer = Trainer(workload, Latecomer().build(model.spec), model=model)
    data = workload.train_data(Client("ann"))
    once, again = (trainer.train(public_D, data, Key.root(1)) for _ in range(2))
    assert once.delta_D.any()
    assert digest(once.delta_D) == digest(again.delta_D)


def test_the_tutorials_federation_learns(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    config = yaml.safe_load((TUTORIAL / "federation.yaml").read_text(encoding="utf-8"))
    for name in ("app", "model", "server"):
        del config[name]
    config |= {"stop": {"versions": 10}, "simulate": {"clients": 4}}
    workload = load_app(f"{TUTORIAL / 'my_app.py'}:workload")
    results = latecomer.run(config, workload, folder=tmp_path / "run")
    first, last = (results.metrics["accuracy"][at] for at in (0, -1))
    assert last > first + 0.2
