"""Oort prefers clients that promise most, and tries those that it does not know."""

import math
from collections import Counter
from itertools import islice

import pytest
from pydantic import ValidationError

from fedcore.measured import Measured, TaskReport
from fedcore.rng import Key
from fedcore.selection import Oort
from fedcore.selection.oort import OortState

ALWAYS = Oort(explore=0, explore_least=0, percentile=100, cut_off=1)


def report(
    client: str,
    loss: float | None,
    seconds: float | None = 1.0,
    *,
    samples: int = 10,
    base: int = 0,
    steps: int = 5,
) -> TaskReport:
    """What a client's task came to."""
    measured = Measured(samples * steps, seconds)
    return TaskReport(0.0, client, base, steps, loss, measured, samples)


def after(config: Oort, *reports: TaskReport) -> OortState:
    """What is known after these tasks."""
    rule = config.build()
    state = rule.init()
    assert rule.observe is not None
    for each in reports:
        state = rule.observe(state, each)
    assert isinstance(state, OortState)
    return state


def chosen(
    config: Oort, state: OortState, candidates: str, room: int, seed: int = 0
) -> list[str]:
    """The clients of a cohort; each letter is one."""
    order = config.build().order(state, room)
    return list(islice(order(list(candidates), Key.root(seed)), room))


def test_utilities_are_those_of_the_paper() -> None:
    config = Oort(percentile=50, clip=1.0)
    state = after(
        config,
        report("a", 1.0, 1.0, base=0),
        report("b", 3.0, 2.0, base=1),
        report("c", 2.0, 8.0, base=3),
        report("d", 5.0, 2.0, base=3),
    )
    # U = 10, 30, 20 and 50, of which the largest is lowered to 30; T = 2, R = 4.
    least = 0.999 * 10
    span = 30 - least
    expected = {
        "a": (10 - least) / span + math.sqrt(0.1 * math.log(4) / 1),
        "b": (30 - least) / span + math.sqrt(0.1 * math.log(4) / 2),
        "c": ((20 - least) / span + math.sqrt(0.1 * math.log(4) / 4)) * (2 / 8) ** 2,
        "d": (30 - least) / span + math.sqrt(0.1 * math.log(4) / 4),
    }
    assert config.utilities(state, "abcd") == pytest.approx(expected)


def test_the_most_useful_clients_are_chosen() -> None:
    state = after(ALWAYS, *(report(cid, n + 1.0) for n, cid in enumerate("abcdef")))
    found = Counter(
        "".join(sorted(chosen(ALWAYS, state, "abcdef", 2, s))) for s in range(50)
    )
    assert set(found) <= {"df", "ef", "de"}  # the cut-off is the third one's utility


def test_a_slow_client_is_seldom_chosen() -> None:
    config = ALWAYS.model_copy(update={"percentile": 50.0, "cut_off": 0.01})
    reports = [report(cid, 2.0, 1.0) for cid in "abcd"] + [report("e", 2.0, 20.0)]
    state = after(config, *reports)
    found = Counter(
        cid for s in range(200) for cid in chosen(config, state, "abcde", 2, s)
    )
    assert found["e"] < 10 < 50 < min(found[cid] for cid in "abcd")


def test_unknown_clients_get_their_share_and_it_falls() -> None:
    config = Oort()
    knows = "abcdefghij"
    first = after(config, *(report(cid, 1.0) for cid in knows))
    later = after(config, *(report(cid, 1.0, base=99) for cid in knows))
    everyone = knows + knows.upper()
    for state, share in ((first, 0.9 * 0.95), (later, 0.2)):
        unknown = [cid for cid in chosen(config, state, everyone, 10) if cid.isupper()]
        assert len(unknown) == 10 - math.floor(10 * (1 - share))


def test_without_unknown_clients_all_places_go_to_known_ones_and_the_other_way() -> (
    None
):
    config = Oort()
    state = after(config, *(report(cid, 1.0) for cid in "abcd"))
    assert len(chosen(config, state, "abcd", 3)) == 3
    assert len(chosen(config, state, "ABCD", 3)) == 3
    nothing = OortState(percentile=10.0)
    assert len(set(chosen(config, nothing, "ABCD", 3))) == 3


def test_an_absurd_loss_moves_no_utility_of_another_client() -> None:
    config = Oort(percentile=100)
    honest = [report(cid, n + 1.0) for n, cid in enumerate("abcd")]
    fair = config.utilities(after(config, *honest, report("e", 4.0)), "abcde")
    hostile = after(config, *honest, report("e", 1e6, samples=1 << 40))
    assert config.utilities(hostile, "abcde") == fair


@pytest.mark.parametrize("loss", [None, -1.0, 1e7, math.inf, math.nan])
def test_who_tells_no_loss_is_known_as_the_least_useful(loss: float | None) -> None:
    honest = [report(cid, n + 1.0) for n, cid in enumerate("abcd")]
    state = after(ALWAYS, *honest, report("e", loss))
    assert state.clients["e"] == (0.0, 1.0, 1)
    assert "e" not in {
        c for s in range(50) for c in chosen(ALWAYS, state, "abcde", 2, s)
    }
    assert state.sums == (10 * (1.0 + 2.0 + 3.0 + 4.0),)  # the pacer learns nothing
    assert state.counts == (4,)


def test_rounds_of_which_no_loss_was_told_have_no_mean() -> None:
    reports = [report("a", None, base=base) for base in range(9)]
    state = after(Oort(pacer_step=3), *reports)
    assert state.mean(0, 10) == 0


def test_an_absurd_duration_hurts_its_own_client_alone() -> None:
    config = Oort(percentile=50)
    honest = [report(cid, 1.0, 1.0 + n) for n, cid in enumerate("abcdefg")]
    fair = config.utilities(after(config, *honest, report("h", 1.0, 9.0)), "abcdefgh")
    slow = config.utilities(after(config, *honest, report("h", 1.0, 1e7)), "abcdefgh")
    assert slow.pop("h") < 1e-9 < fair.pop("h")
    assert slow == fair


def rounds(config: Oort, losses: list[float]) -> float:
    """The percentile after rounds in which everybody has such a loss."""
    reports = [report("a", loss, base=base) for base, loss in enumerate(losses)]
    return after(config, *reports).percentile


def test_the_pacer_lets_slower_clients_in_once_the_others_teach_no_more() -> None:
    config = Oort(pacer_step=3, percentile=10, pacer_delta=5)
    assert rounds(config, [1.0] * 6) == 10  # two windows are not over yet
    assert rounds(config, [1.0] * 9) == 15
    assert rounds(config, [1.0] * 12) == 20
    assert rounds(config, [1.0] * 3 + [0.5] * 6) == 10
    assert rounds(config, [0.01] * 5 + [1.0] * 6) == 5
    assert rounds(config, [1.0] * 300) == 100


def test_who_claims_to_have_taken_no_steps_does_not_stay_unknown() -> None:
    state = after(Oort(), report("a", 1.0, steps=0))
    assert state.clients["a"] == (0.0, 1.0, 1)


def test_exploring_less_at_first_than_in_the_end_is_refused() -> None:
    with pytest.raises(
        ValidationError, match=r"explore_least 0\.5 is above explore 0\.1"
    ):
        Oort(explore=0.1, explore_least=0.5)
