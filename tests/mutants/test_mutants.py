"""The mutation tool: what it plants, what it leaves alone, and who is believed."""

import json
from pathlib import Path
from textwrap import dedent

import pytest

pytest.importorskip("cosmic_ray", reason="`make test-extras` installs it")

from tests.mutants.books import reasons
from tests.mutants.operators import mutants
from tests.mutants.table import RESULTS, ROOT
from tests.mutants.targets import targets

pytestmark = pytest.mark.needs("cosmic_ray")


def planted(source: str) -> set[tuple[str, str]]:
    found = mutants("module.py", dedent(source))
    return {(mutant.was, mutant.becomes) for mutant in found}


def test_decisions_are_turned_round_and_moved_by_one() -> None:
    found = planted(
        """
        def late(at, deadline):
            return at > deadline + 1
        """
    )
    was = "return at > deadline + 1"
    assert {
        (was, "return at >= deadline + 1"),
        (was, "return at <= deadline + 1"),
        (was, "return at > deadline - 1"),
        (was, "return at > deadline + 2"),
        (was, "return None"),
    } <= found


def test_statements_arguments_entries_and_handlers_are_left_out() -> None:
    found = planted(
        """
        def save(self, file):
            os.fsync(file)
            self.count += 1
            try:
                write(file, mode="x", state={"a": 1, "b": 2})
            except OSError as error:
                raise Full from error
        """
    )
    write = 'write(file, mode="x", state={"a": 1, "b": 2})'
    assert {
        ("os.fsync(file)", "pass"),
        ("self.count += 1", "pass"),
        ("raise Full from error", "pass"),
        ("except OSError as error:", "except () as error:"),
        (write, 'write(file, state={"a": 1, "b": 2})'),
        (write, 'write(file, mode="x", state={ "b": 2})'),
    } <= found


def test_types_texts_and_what_cannot_happen_are_left_alone() -> None:
    assert not planted(
        '''
        """One line, 1 more."""

        def same(value: int | None, *, seq: "dict[str, int | None]") -> int | None:
            """Returns 1 + 1."""
            assert value is not None
            raise ValueError(f"{seq}: expected 1, got {value}")
        '''
    ) - {('raise ValueError(f"{seq}: expected 1, got {value}")', "pass")}


def test_every_module_has_tests_of_its_own() -> None:
    for target in targets():
        own = [test for test in target.tests if "protocol" not in test]
        assert any((ROOT / test).exists() for test in own), target.path


def test_saved_survivors_have_their_reasons() -> None:
    saved = json.loads((ROOT / RESULTS).read_text(encoding="utf-8"))
    for path, figures in saved["modules"].items():
        told = [each for each in figures["survivors"] if each["why"]]
        assert len(told) == figures["equivalent"], path
        tried = figures["caught"] + figures["equivalent"] + figures["survived"]
        assert tried == figures["tried"], path
    assert all(reasons().values())


def test_modules_that_are_gone_have_no_figures() -> None:
    saved = json.loads((ROOT / RESULTS).read_text(encoding="utf-8"))
    assert all(Path(ROOT / path).exists() for path in saved["modules"])
