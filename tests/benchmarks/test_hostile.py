"""The attacks that are made, and how they are told; what they do: tests.attacks."""

import json
from pathlib import Path

import pytest

from benchmarks.hostile import results
from benchmarks.hostile.attacks import ATTACKS
from benchmarks.hostile.checkout import ROOT, Checkout
from benchmarks.hostile.dear import DEAR
from benchmarks.hostile.messages import BY_KEY, Identity, random_proofs
from benchmarks.hostile.results import Found
from benchmarks.hostile.scenarios import SCENARIOS
from benchmarks.hostile.single import UPLINKS
from benchmarks.hostile.stage import End, Window
from fedcore import payloads
from fedrun.config import parse_config

DIM = 10_000


def window(updates: int, megabytes: float, answers: object = None) -> Window:
    return Window(2.0, updates, 0, megabytes, 0.01, 0, 1.0, answers)


def test_each_attack_has_a_federation() -> None:
    assert list(SCENARIOS) == list(ATTACKS)
    for scenario in SCENARIOS.values():
        parse_config(scenario.config())


@pytest.mark.parametrize("name", DEAR)
def test_a_dear_message_is_small_and_sound(name: str) -> None:
    message = DEAR[name](DIM)
    assert len(message) < DIM
    assert payloads.decode(payloads.unpack(message, (DIM,))).shape == (DIM,)
    assert name in UPLINKS


def test_the_peer_shows_a_key_of_its_own() -> None:
    assert BY_KEY
    assert Identity().who != Identity().who
    assert set(random_proofs()) == {"held_proof", "settled_proof", "abandoned_proofs"}


def test_figures_are_of_pairs_and_others_keep_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path / "hostile.json")
    pairs = [
        (window(100, 80.0), window(90, 100.0, {"answers": {"OK": 3}})),
        (window(50, 90.0), window(25, 120.0, {"answers": {"OK": 3}})),
    ]
    found = Found(pairs, [0.2, None], [], 0, End(0, True, "sound"))
    assert found.ratios == [0.9, 0.5]
    assert found.growth == 1.5
    assert not found.goes_on
    results.save("attacks", "one", "before", found.to_json(), title="One", pairs=2)
    results.save("attacks", "one", "after", found.to_json(), title="One", pairs=2)
    told = json.loads(results.RESULTS.read_text())["attacks"]["one"]
    assert told["title"] == "One"
    assert told["before"] == told["after"]
    assert told["after"]["ratio"] == 0.7
    assert told["after"]["updates a second"]["with"] == [45.0, 12.5]


def test_a_process_of_another_tree_has_its_packages_first(tmp_path: Path) -> None:
    paths = Checkout(tmp_path).environment["PYTHONPATH"].split(":")
    assert paths == [str(tmp_path), str(tmp_path / "protos")]


def test_the_table_of_the_documentation_is_what_was_measured() -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    told = json.loads(results.RESULTS.read_text())
    for name in told["attacks"]:
        assert results.line(name) in text, results.line(name)
    for title, found in told["speed"].items():
        assert f"| {title} | {found['ratio']:.2f} |" in text
