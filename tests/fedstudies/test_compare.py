"""``fedsim compare``: what is one side, what differs, and whether by chance."""

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import latecomer
from fedstudies.compare.comparison import Comparison, compare
from fedstudies.compare.sides import Side, read_sides
from fedstudies.trial import Place, Trial
from tests.fedsim.toys import settings, toy, write
from tests.integration.typed import desk, typed


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with desk(tmp_path, monkeypatch) as here:
        yield here


def trial(seed: int, values: Sequence[float | None], pace: float = 1.0) -> Trial:
    places = [Place(pace * v, v, 2 * v, 100 * v) for v in range(len(values))]
    return Trial(
        seed=seed,
        versions=len(values) - 1,
        updates=2 * len(values),
        bytes_up=1,
        bytes_down=1,
        seconds=pace * len(values),
        places=places,
        metrics={"accuracy": list(values)},
    )


def side(name: str, *trials: Trial, **config: object) -> Side:
    return Side(name, {each.seed: each for each in trials}, dict(config))


def better(by: float, seeds: int, pace: float = 1.0) -> list[Trial]:
    return [trial(s, [0.0, 0.5, 0.8 + by + s / 100], pace) for s in range(seeds)]


def run(folder: str, **changes: object) -> str:
    latecomer.run(settings(**changes), toy(), folder=Path(folder))
    return folder


# ------------------------------------------------------------------------ the sides


def test_runs_that_differ_in_their_seeds_alone_are_one_side() -> None:
    names = [run(f"a{s}", seed=s) for s in range(2)]
    names += [run(f"b{s}", seed=s, stop={"versions": 6}) for s in range(2)]
    one, two = read_sides(names)
    assert [one.name, two.name] == ["a0", "b0"]
    assert sorted(one.trials) == sorted(two.trials) == [0, 1]
    assert one.differences(two) == ["stop.versions: 8 -> 6"]


def test_two_seeds_of_one_config_are_two_sides_if_there_is_no_other() -> None:
    one, two = read_sides([run("a", seed=0), run("b", seed=1)])
    assert (list(one.trials), list(two.trials)) == ([0], [1])


def test_of_a_sweep_the_best_row_is_taken_or_that_which_is_named() -> None:
    write()
    grid = ("--grid", "algorithm.client.lr=0.001,0.05", "--seeds", "2")
    typed("fedsim", "sweep", "fed.yaml", *grid, "--jobs", "1", "-o", "out")
    one, two = read_sides(["out", "out:2"])
    assert (one.name, two.name) == ("out:1 lr=0.05", "out:2 lr=0.001")
    assert sorted(one.trials) == [0, 1]
    assert one.differences(two) == ["algorithm.client.lr: 0.05 -> 0.001"]


# ------------------------------------------------------------------------ the verdict


def test_six_seeds_tell_a_steady_difference_from_chance() -> None:
    found = compare([side("a", *better(0, 6)), side("b", *better(0.05, 6))])
    (paired,) = found.differences
    assert paired.difference.mean == pytest.approx(0.05)
    assert paired.p == 2 / 64
    head, line, *_ = found.sentences()
    assert head == "b against a:"
    assert line.startswith("  accuracy 0.05 ± ")
    assert line.endswith(" higher (p = 0.031, more than chance)")


def test_three_seeds_cannot_and_that_is_said() -> None:
    found = compare([side("a", *better(0, 3)), side("b", *better(0.05, 3))])
    assert "(p = 0.25, may be chance)" in found.sentences()[1]
    assert "3 seeds cannot give p below 0.25; 6 can give 0.031." in found.sentences()


def test_one_seed_each_is_no_significance() -> None:
    found = compare([side("a", *better(0, 1)), side("b", *better(0.05, 1))])
    assert found.sentences()[1] == "  accuracy 0.05 higher"
    assert found.sentences()[-1] == "One seed each: no significance."


def test_without_a_seed_in_common_nothing_is_paired() -> None:
    found = compare(
        [side("a", trial(0, [0.1])), side("b", trial(1, [0.2]), trial(2, [0.3]))]
    )
    assert found.sentences() == [
        "b against a:",
        "  accuracy cannot be compared",
        "0 seeds in common: no significance; runs are paired by their seeds.",
    ]


def test_of_several_sides_p_values_are_adjusted() -> None:
    sides = [
        side(name, *better(by, 6)) for name, by in (("a", 0), ("b", 0.1), ("c", 0.2))
    ]
    found = compare(sides)
    assert [each.p for each in found.differences] == [4 / 64, 4 / 64]
    assert "P-values are adjusted for 2 comparisons (Holm)." in found.sentences()


def test_costs_are_told_up_to_the_target() -> None:
    slow = side("slow", *better(0, 6, pace=3.0))
    fast = side("fast", *better(0, 6, pace=1.0))
    found = compare([slow, fast], target=0.5)
    assert found.cost(slow, "seconds") == (3.0, 0.0, 6)
    assert found.cost(fast, "seconds") == (1.0, 0.0, 6)
    (ratio,) = found.ratios("seconds")
    assert math.exp(ratio.difference.mean) == pytest.approx(1 / 3)
    assert (
        "  0.333 times the time to 0.5 (p = 0.031, more than chance)"
        in found.sentences()
    )
    assert "  1 times the payload to 0.5 (p = 1, may be chance)" in found.sentences()


def test_the_target_is_the_configs_or_what_all_come_to() -> None:
    low, high = side("low", trial(0, [0.0, 0.6])), side("high", trial(0, [0.1, 0.9]))
    assert compare([low, high]).target == 0.6
    named = side("low", trial(0, [0.0, 0.6]), stop={"target": {"accuracy": 0.5}})
    assert compare([named, high]).target == 0.5
    never = side("low", trial(0, [0.0, 0.6]), stop={"target": {"accuracy": 0.7}})
    assert compare([never, high]).target == 0.6


def test_runs_that_never_get_there_are_counted() -> None:
    sides = [side("a", *better(0, 3)), side("b", trial(0, [0.1]), trial(1, [0.9]))]
    found = Comparison(sides, "accuracy", 0.85)
    assert [found.count_missed(each) for each in sides] == [3, 1]
    assert found.sentences()[-1] == (
        "4 of 5 runs never reach 0.85: costs are those of the others; a lower "
        "--target compares more."
    )


# ------------------------------------------------------------------------ the command


def test_runs_are_told_side_by_side_with_a_page() -> None:
    names = (run("a"), run("b", algorithm={"kind": "fed_buff", "buffer": 3}))
    done = typed("fedsim", "compare", *names, "-o", "page/compare.html")
    assert (done.status, done.errors) == (0, [])
    assert "b: algorithm.buffer: 2 -> 3" in done.out
    assert "final loss" in done.out
    assert done.out.splitlines()[-1] == "One seed each: no significance."
    assert done.err.splitlines() == ["page: page/compare.html"]
    page = Path("page/compare.html").read_text()
    assert "<h1>Comparison by loss</h1>" in page
    assert page.count('<figure class="plot"') == 1


@pytest.mark.parametrize(
    ("names", "status", "sentence"),
    [
        (
            ("a",),
            os.EX_CONFIG,
            "compare needs at least two runs; FOLDER:2 names a row of a",
        ),
        (("a", "b"), os.EX_CONFIG, "b: is no folder of a run or a sweep"),
        (("a", "a:2"), os.EX_CONFIG, "a/sweep.json: is not the index of a sweep"),
        (("a", "empty"), os.EX_IOERR, "empty: "),
        (
            ("a", "a", "--metric", "x"),
            os.EX_DATAERR,
            "--metric x: was not measured; me",
        ),
    ],
)
def test_mistakes_are_answered_with_a_sentence(
    names: tuple[str, ...], status: int, sentence: str
) -> None:
    run("a")
    Path("empty").mkdir()
    done = typed("fedsim", "compare", *names)
    assert done.sentence(status).startswith(sentence)


def test_a_row_that_a_sweep_does_not_have_is_named() -> None:
    write()
    typed("fedsim", "sweep", "fed.yaml", "--jobs", "1", "-o", "out")
    done = typed("fedsim", "compare", "out", "out:2")
    assert done.sentence(os.EX_CONFIG) == "out:2: the sweep has the points 1 to 1"
