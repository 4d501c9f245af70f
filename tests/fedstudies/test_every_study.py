"""What holds for every registered study: a command, a function, JSON, files, Ctrl-C."""

import json
import re
import shlex
from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from click.testing import CliRunner

import latecomer
from fedcore.errors import ConfigError
from fedrun.cli.plain_json import to_json
from fedsim.cli import main
from fedstudies import STUDIES, frame
from fedstudies.commands import command_of
from fedstudies.frame import settings_of
from tests.docs.pages import ROOT
from tests.fedrun.test_phase_file import lines, written
from tests.fedsim.toys import write
from tests.fedstudies.test_plan import APP as BOWL
from tests.fedstudies.test_plan import FEDERATION, PRICES
from tests.integration.typed import Ended, desk, typed

pytest.importorskip("torch")


class Case(NamedTuple):
    """A small study, as it is typed and as it is called."""

    words: str
    call: Callable[[Any], Any]
    """Given the function; without a folder."""
    wrong: str
    """Words that are refused."""
    sentence: str
    """How the error begins."""
    steps: int = 1
    """The steps after which Ctrl-C is typed."""
    is_continued: bool = False
    """Whether a command is printed that continues."""


SMALL = {"simulate.clients": 2, "stop.versions": 2}
SET = "--set simulate.clients=2 --set stop.versions=2"
CASES = {
    "codecs": Case(
        f"fed.yaml --uplink cast --downlink cast --versions 2 --jobs 1 {SET}",
        lambda codecs: codecs(
            "fed.yaml", uplinks=["cast"], downlinks=["cast"], versions=2, changes=SMALL
        ),
        "fed.yaml --uplink topk",
        "--uplink topk: algorithm.uplink: unknown compressor",
        steps=3,
        is_continued=True,
    ),
    "sweep": Case(
        f"fed.yaml --grid algorithm.buffer=1,2 --jobs 1 {SET}",
        lambda sweep: sweep("fed.yaml", {"algorithm.buffer": [1, 2]}, changes=SMALL),
        f"fed.yaml --metric speed --jobs 1 {SET}",
        "--metric speed: was not measured; measured: loss",
        is_continued=True,
    ),
    "compare": Case(
        "a b", lambda compare: compare("a", "b"), "a b --metric speed", "--metric speed"
    ),
    "staleness": Case(
        "linear.yaml --target 0.5 --optimizer sgd:lr=0.1 --staleness 0,2 --workers 2 "
        "--batch 4 --most 40",
        lambda staleness: staleness(
            "linear.yaml",
            target=0.5,
            optimizers=["sgd:lr=0.1"],
            staleness=[0, 2],
            workers=2,
            batch=4,
            most=40,
        ),
        "linear.yaml --target 0.5 --metric speed",
        "--metric speed: is not measured; measured: loss",
    ),
    "influence": Case(
        "plain.yaml --versions 2 --jobs 1",
        lambda influence: influence("plain.yaml", versions=2),
        "plain.yaml --clients zoe",
        "--clients zoe: no such client",
        steps=3,
        is_continued=True,
    ),
    "plan": Case(
        "bowl.yaml --prices prices.yaml --target loss=0.2 --deadline 30m --seeds 1 "
        "--pilot-versions 40 --checks 1 --jobs 1",
        lambda plan: plan(
            "bowl.yaml",
            "prices.yaml",
            target={"loss": 0.2},
            deadline="30m",
            seeds=1,
            pilot_versions=40,
            checks=1,
        ),
        "bowl.yaml --prices prices.yaml --target speed=0.5 --deadline 30m --jobs 1",
        "--target speed=0.5: bowl.py:workload has no evaluations of speed",
        steps=2,
        is_continued=True,
    ),
    "predict": Case(
        "phases.jsonl --workers 2 --server-up-mbit 1",
        lambda predict: predict("phases.jsonl", [2], server_up_mbit=1.0),
        "phases.jsonl --server-ms -1",
        "--server-ms -1: expected 0 or more",
    ),
    "scale": Case(
        "linear.yaml --device device.yaml --workers 1,2",
        lambda scale: scale("linear.yaml", device="device.yaml", workers=[1, 2]),
        "linear.yaml --link 0",
        "--link 0: expected Mbit/s above 0",
    ),
    "coding": Case(
        "--workers 3 --trials 50",
        lambda coding: coding(3, trials=50),
        "--workers 0",
        "0 workers: expected 1 or more",
    ),
}
# Options that choose an app or import methods, and those of the command alone.
OF_COMMANDS = {"flower", "run_config", "methods", "as_json", "verbose"}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with desk(tmp_path, monkeypatch) as here:
        write()
        federation = Path("fed.yaml").read_text()
        Path("linear.py").write_text(
            "from tests.fedsim.toys import linear\nworkload = linear()\n"
        )
        Path("linear.yaml").write_text(federation.replace("mine.py", "linear.py"))
        Path("plain.yaml").write_text(
            "app: mine.py:workload\n"
            "algorithm: {kind: fed_avg, buffer: 2, client: {kind: local_sgd}}\n"
            "simulate: {clients: 2}\n"
        )
        Path("device.yaml").write_text("peak_gflops: 10\nmemory_gb_per_second: 5\n")
        Path("bowl.py").write_text(BOWL)
        Path("bowl.yaml").write_text(
            yaml.safe_dump({**FEDERATION, "app": "bowl.py:workload"})
        )
        Path("prices.yaml").write_text(yaml.safe_dump(PRICES))
        written(Path(), lines())
        yield here


def runs_of(name: str) -> None:
    if name == "compare":
        for folder, versions in (("a", 2), ("b", 3)):
            latecomer.run("fed.yaml", folder=folder, data={"versions": str(versions)})


def study_of(name: str) -> Any:
    module, _, study = STUDIES[name].partition(":")
    return getattr(import_module(module), study)


def function_of(name: str) -> Any:
    study = study_of(name)
    return getattr(latecomer, study.function or study.name)


def study(name: str, words: str, *more: str) -> Ended:
    return typed("fedsim", name, *shlex.split(words), *more)


def untimed(value: Any) -> Any:
    """The same numbers without measured times."""
    if isinstance(value, dict):
        return {k: untimed(v) for k, v in value.items() if k != "milliseconds"}
    return [untimed(v) for v in value] if isinstance(value, list) else value


def test_every_study_is_in_the_table() -> None:
    assert list(CASES) == list(STUDIES)
    assert set(STUDIES) <= set(main.commands)


@pytest.mark.parametrize("name", STUDIES)
def test_the_help_has_examples_and_the_list_its_first_line(name: str) -> None:
    done = study(name, "--help")
    assert f"fedsim {name} " in done.out.partition("Example")[2]
    first = done.out.splitlines()[2].strip()
    assert main.commands[name].get_short_help_str(limit=200) in first
    assert "Returns" not in done.out


@pytest.mark.parametrize("name", STUDIES)
def test_an_option_is_an_argument_with_a_line_in_both_helps(name: str) -> None:
    settings, function = settings_of(study_of(name)), function_of(name)
    arguments = [each.name for each in settings]
    assert sorted(signature(function).parameters) == sorted(arguments)
    options = {each.name for each in command_of(study_of(name)).params}
    python_only = {"workload"} & {*arguments}
    assert options - OF_COMMANDS == {*arguments} - python_only
    assert all(each.doc.endswith((".", ":")) for each in settings)
    _, _, doc = function.__doc__.partition("Args:\n")
    assert all(f"\n    {each}: " in f"\n{doc}" for each in arguments)
    assert {"Returns:", "Raises:"} <= {*doc.splitlines()}


@pytest.mark.parametrize("name", STUDIES)
def test_json_is_what_the_function_returns(name: str) -> None:
    runs_of(name)
    done = study(name, CASES[name].words, "--json")
    assert (done.status, done.errors) == (0, [])
    found = CASES[name].call(function_of(name))
    numbers = json.loads(to_json(found.as_json()))
    assert untimed(json.loads(done.out)) == untimed(numbers)


@pytest.mark.parametrize("name", STUDIES)
def test_the_folder_gets_a_page_with_the_verdict(name: str) -> None:
    runs_of(name)
    is_page = study_of(name).writes == "page"
    done = study(name, CASES[name].words, "-o", "out.html" if is_page else "out")
    assert (done.status, done.errors) == (0, [])
    page = Path("out.html") if is_page else Path("out", f"{name}.html")
    assert f"page: {page}" in done.err.splitlines()
    assert "<h1>" in page.read_text()
    said = CASES[name].call(function_of(name)).findings()
    assert is_page != (Path("out") / f"{name}.json").is_file()
    if name != "codecs":  # whose verdict may depend on nothing but chance
        assert (said.verdict or said.sentences[-1]) in done.out
    for doubt in said.doubts:
        assert doubt in done.out


@pytest.mark.parametrize("name", STUDIES)
def test_a_wrong_value_gets_one_clear_sentence(name: str) -> None:
    runs_of(name)
    done = study(name, CASES[name].wrong)
    assert done.status
    (sentence,) = done.errors
    assert sentence.startswith(CASES[name].sentence)


@pytest.mark.parametrize("name", STUDIES)
def test_an_unknown_argument_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'sped'"):
        function_of(name)(sped=1)


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("coding", "--workers"),
        ("plan fed.yaml --target accuracy=0.9", "--prices"),
        ("plan fed.yaml --prices prices.yaml", "--target"),
    ],
)
def test_a_missing_option_is_asked_for(words: str, option: str) -> None:
    done = CliRunner().invoke(main, words.split())
    assert done.exit_code == 2
    assert f"Missing option '{option}'" in done.output


@pytest.mark.parametrize("words", ["compare a b", "staleness fed.yaml"])
@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_target_is_a_finite_number(words: str, value: str) -> None:
    done = CliRunner().invoke(main, [*words.split(), "--target", value])
    assert done.exit_code == 78
    assert f"error: target: expected a number, got {value}\n" in done.output


def test_a_folder_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes").touch()
    with pytest.raises(ConfigError, match="notes is a file, not a folder"):
        latecomer.coding(4, out=tmp_path / "notes" / "page")


def test_a_wrong_call_names_the_function_and_its_arguments() -> None:
    function: Any = latecomer.coding
    with pytest.raises(
        TypeError, match=r"^coding\(\): .*'workers'; its arguments: wor"
    ):
        function()


def test_an_interval_that_is_no_list_is_refused() -> None:
    ranges: Any = {"algorithm.client.lr": 3}
    with pytest.raises(ConfigError, match="lr: expected a scale and two ends"):
        latecomer.run_sweep("fed.yaml", ranges=ranges, random=2)


IMPORTS = """
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np
from rich.console import Console

from fedcore.config import Count
from fedcore.rng import Key
from fedstudies.frame import Findings, Outcome, Part, Phase, Progress, Steps, Study
from fedstudies.functions import function_of
from fedstudies.tables import Cells
"""


def test_the_example_of_a_study_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    (code,) = re.findall(r"```python\n(class Dice.*?)```", page, re.DOTALL)
    Path("dice_study.py").write_text(IMPORTS + code)
    monkeypatch.syspath_prepend(Path.cwd())
    dice = import_module("dice_study")
    assert sum(dice.dice(6, throws=60).counts) == 60
    done = CliRunner().invoke(command_of(dice.Dice), ["--sides", "6", "-o", "out"])
    assert done.exit_code == 0
    assert "side 5 came up most often" in done.stdout
    assert Path("out/dice.html").is_file()


class Interrupted:
    """Bars that type Ctrl-C once, after some steps."""

    left = 0

    def __init__(self, console: object) -> None:
        """All bars share the count."""

    def add_task(self, *args: object, **given: object) -> int:
        return 0

    def start(self) -> None:
        """Nothing is shown."""

    stop = start

    def update(self, *args: object, **given: object) -> None:
        Interrupted.left -= 1
        if Interrupted.left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("name", [name for name in STUDIES if name != "compare"])
def test_ctrl_c_keeps_what_there_is_and_says_how_to_go_on(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    monkeypatch.setattr(frame, "bars", Interrupted)
    monkeypatch.setattr(Interrupted, "left", case.steps)
    done = study(name, case.words, "-o", "out")
    said = done.err.splitlines()
    is_told = not any(line.startswith("nothing to tell") for line in said)
    is_told &= said[-1] != "stopped"
    assert (done.status, done.errors) == (0 if is_told else 1, [])
    assert any(line.startswith("stopped") for line in said)
    assert "Traceback" not in done.err
    again = [line for line in said if line.startswith("to continue: ")]
    assert bool(again) == case.is_continued
    if name in ("codecs", "sweep", "staleness", "predict"):
        assert Path("out", f"{name}.html").is_file()
    else:
        assert any(line.startswith("nothing to tell") for line in said) or not again
    for line in again:
        _, *words = shlex.split(line.removeprefix("to continue: "))
        rest = typed("fedsim", *words)
        assert (rest.status, rest.errors) == (0, [])
        assert Path("out", f"{name}.html").is_file()
        known = "known from before: 1 run of " in rest.err
        assert known == (name in ("codecs", "sweep"))


def test_ctrl_c_in_a_script_is_an_interrupt_and_the_files_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(frame, "bars", Interrupted)
    monkeypatch.setattr(Interrupted, "left", 1)
    with pytest.raises(KeyboardInterrupt):
        latecomer.predict("phases.jsonl", [2, 4], out="out")
    found = json.loads(Path("out/predict.json").read_text())
    assert [row["clients"] for row in found["predictions"]] == [1]
