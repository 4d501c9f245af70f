"""A power cut at any moment: nothing promised is lost or doubled, and all starts."""

import pytest

from tests.power.cuts import recorded
from tests.power.drive import STORIES
from tests.power.recorder import compiler

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
CUTS = 250  # of each story


@pytest.mark.parametrize("story", STORIES)
def test_no_power_cut_breaks_a_promise(story: str) -> None:
    with recorded(story, 1) as recording:
        outcome = recording.cut(CUTS / len(recording.operations), seed=1)
        assert not outcome.violations, outcome.violations
        assert outcome.cuts > CUTS * 0.5
