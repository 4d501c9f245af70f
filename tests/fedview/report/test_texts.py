"""What a model wrote, in the report."""

from pathlib import Path

from fedview.report.texts import MOST, section
from fedview.results import Results
from tests.fedview.report.story import Story, short_story


def story(versions: int) -> Story:
    told = Story()
    told.enrol("judge", role="evaluator")
    for version in range(versions):
        told.show("judge", float(version), version, f"<b>{version}</b>\x1b")
    return told


def test_some_versions_are_shown_from_the_first_to_the_last(tmp_path: Path) -> None:
    found = section(Results(story(40).write(tmp_path / "run")))
    assert found is not None
    (shown,) = found.parts
    assert shown.count("<pre>") == MOST
    assert "&lt;b&gt;0&lt;/b&gt;\\x1b" in shown
    assert "&lt;b&gt;39&lt;/b&gt;" in shown
    assert "12 of 40 are shown" in found.lead


def test_a_run_without_texts_has_no_such_section(tmp_path: Path) -> None:
    assert section(Results(short_story().write(tmp_path / "run"))) is None
