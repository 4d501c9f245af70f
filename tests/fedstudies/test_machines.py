"""``fedsim scale --prices``: scaling up against scaling out, by time and price."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import latecomer
from fedcore.planning.batch_limit import BatchLimit
from fedcore.planning.paleo import Exchange, Layer, Link, step_time
from fedstudies.prices.price_file import MachineConfig, MachinesConfig
from fedstudies.scaling.gradients import Limits
from fedstudies.scaling.layers import Step
from fedstudies.scaling.machines import Fleet, Machines, limit_in_words
from fedstudies.scaling.report import ScaleReport
from tests.fedsim.toys import write
from tests.integration.typed import Ended, desk, typed

pytest.importorskip("torch")

TORCH = "from tests.fedsim.toys import linear\nworkload = linear()\n"
PRICES = """
currency: EUR
machines:
  - {name: small, price: 0.5, peak_gflops: 10, memory_gb_per_second: 5, link: 1000}
  - {name: big, price: 4, peak_gflops: 40, memory_gb_per_second: 20, link: "up=1000"}
"""
USER = 78  # the exit code of wrong settings
FREE = Link(math.inf, math.inf, math.inf)
SLOW = Link(1e6, 1e6, 1e7, 0.01)
LAYER = Layer(
    name="a",
    kind="linear",
    flops_forward=10**6,
    flops_backward=2 * 10**6,
    bytes_read=10**5,
    bytes_written=10**5,
    calls=4,
)
WORKERS = (1, 2, 4, 8, 16)
STEPS = 50


def kind(name: str, price: float, speed: float) -> MachineConfig:
    return MachineConfig(
        name=name, price=price, peak_gflops=speed, memory_gb_per_second=speed
    )


def machines(*kinds: MachineConfig, link: Link = SLOW) -> Machines:
    found = ScaleReport(
        app="app",
        workers=WORKERS,
        exchange=Exchange(values=10**4, up=10**4, down=10**4),
        link=link,
        limits={"initial": Limits(None, None, ["unknown"])},
        averaged=1,
        device=None,
        step=Step([LAYER], 16, []),
        steps=STEPS,
        measured=None,
        doubts=(),
        prices=MachinesConfig(machines=kinds),
        links=[link] * len(kinds),
    ).machines
    assert found is not None
    return found


KINDS = st.lists(
    st.tuples(st.floats(0.1, 10), st.floats(0.1, 100)), min_size=1, max_size=4
).map(lambda pairs: [kind(f"kind {n}", *pair) for n, pair in enumerate(pairs)])


def work(fleets: list[Fleet], name: str) -> list[Fleet]:
    return [fleet for fleet in fleets if fleet.kind == name]


@given(KINDS)
def test_one_machine_is_paid_for_its_own_steps_alone(
    kinds: list[MachineConfig],
) -> None:
    found = machines(*kinds)
    for each in kinds:
        alone, own = work(found.strong, each.name)[0], work(found.weak, each.name)[0]
        assert own.seconds == pytest.approx(STEPS * step_time([LAYER], each))
        assert alone.seconds == pytest.approx(WORKERS[-1] * own.seconds)
        assert alone.price == pytest.approx(alone.seconds * each.price / 3600)
        assert alone.gain == own.gain == 1


@given(KINDS)
def test_a_free_network_scales_without_a_loss(kinds: list[MachineConfig]) -> None:
    found = machines(*kinds, link=FREE)
    for each in kinds:
        strong, weak = (work(of, each.name) for of in (found.strong, found.weak))
        for many, own in zip(strong, weak, strict=True):
            assert own.seconds == pytest.approx(weak[0].seconds)
            assert own.price == pytest.approx(own.number * weak[0].price)
            assert many.seconds * many.number == pytest.approx(strong[0].seconds)
            assert many.price == pytest.approx(strong[0].price)
            assert many.gain == pytest.approx(many.number)


@given(KINDS)
def test_an_exchange_makes_more_machines_dearer(kinds: list[MachineConfig]) -> None:
    found = machines(*kinds)
    for fleets in (found.strong, found.weak):
        for each in kinds:
            alone, *more = work(fleets, each.name)
            share = alone.price if fleets is found.strong else 0
            assert all(fleet.price > share for fleet in more)
    assert found.cheapest.number == 1


@given(KINDS, st.data())
def test_a_kind_that_is_worse_in_all_is_never_recommended(
    kinds: list[MachineConfig], data: st.DataObject
) -> None:
    better = data.draw(st.sampled_from(kinds))
    dearer, slower = data.draw(st.tuples(st.floats(1.01, 5), st.floats(1.01, 5)))
    worse = kind("worse", better.price * dearer, better.peak_gflops / slower)
    found = machines(worse, *kinds)
    named = [found.cheapest, found.fastest, *found.sizes]
    assert "worse" not in {fleet.kind for fleet in named}
    assert not any("worse" in line for line in found.sentences)


@given(KINDS, st.sampled_from([FREE, SLOW]))
def test_a_turn_is_the_fewest_that_are_as_fast(
    kinds: list[MachineConfig], link: Link
) -> None:
    found = machines(*kinds, link=link)
    small, *bigger = found.sizes
    assert [turn.up for turn in found.turns] == bigger
    for turn in found.turns:
        fewer = work(found.strong, small.kind)
        if turn.out is not None:
            assert turn.out.seconds <= turn.up.seconds
            assert turn.is_up_better == (turn.up.price <= turn.out.price)
            fewer = fewer[: fewer.index(turn.out)]
        assert all(fleet.seconds > turn.up.seconds for fleet in fewer)


def test_it_turns_with_the_price_and_with_the_network() -> None:
    small, fair, dear = kind("small", 1, 1), kind("big", 3.9, 4), kind("big", 4.1, 4)
    assert "scale up for that speed" in machines(small, fair, link=FREE).sentences[1]
    assert "scale out for that speed" in machines(small, dear, link=FREE).sentences[1]
    slow = machines(small, dear, link=SLOW._replace(latency=60))
    assert "No number of small that was asked for is as fast" in slow.sentences[1]
    assert slow.turns[0].is_up_better


def test_the_batch_limit_says_how_many_machines_help() -> None:
    limit = BatchLimit(count=100, square_mean=1.0, mean_square=0.03)
    assert 30 < limit.beyond < 60
    most = int(limit.beyond / 10)
    assert f"by more than {most} machines." in limit_in_words(limit, 10)
    assert "by more than 1 machine." in limit_in_words(limit, 500)
    hidden = BatchLimit(count=100, square_mean=1.0, mean_square=0.005)
    assert "No batch limit is in sight" in limit_in_words(hidden, 10)
    assert "The batch limit is unknown" in limit_in_words(None, 10)


# ------------------------------------------------------------------------- the command


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with desk(tmp_path, monkeypatch) as here:
        write(TORCH)
        Path("device.yaml").write_text("peak_gflops: 10\nmemory_gb_per_second: 5\n")
        Path("prices.yaml").write_text(PRICES)
        yield here


def scale(*words: str, prices: str = "prices.yaml") -> Ended:
    given = ("--device", "device.yaml", "--workers", "1,4", "--prices", prices)
    return typed("fedsim", "scale", "fed.yaml", *given, *words)


@pytest.mark.usefixtures("folder")
def test_the_tables_are_told_written_and_in_the_json() -> None:
    done = scale("-o", "out")
    assert (done.status, done.errors) == (0, [])
    found = json.loads(Path("out", "scale.json").read_text())["machines"]
    page = Path("out", "scale.html").read_text()
    for title in ("Machines at the same total work", "Machines at the same work each"):
        assert title in done.out
        assert f">{title}<" in page
    for column in ("EUR", "speed-up", "efficiency"):
        assert column in done.out
        assert f">{column}</th>" in page
    assert "batch limit" in done.out
    assert "the cheapest choice is 1 small" in done.out
    assert "the cheapest choice is 1 small" in page
    names = [(row["kind"], row["number"]) for row in found["strong"]]
    assert names == [("small", 1), ("small", 4), ("big", 1), ("big", 4)]
    assert names == [(row["kind"], row["number"]) for row in found["weak"]]
    assert found["currency"] == "EUR"
    assert found["cheapest"] in found["strong"]
    assert found["fastest"] in found["strong"]
    assert found["up_or_out"][0]["up"]["kind"] == "big"
    again: Any = latecomer.scale(
        "fed.yaml", device="device.yaml", workers=[1, 4], prices="prices.yaml"
    )
    assert again.machines.as_json()["strong"] == found["strong"]


@pytest.mark.usefixtures("folder")
def test_a_machine_has_its_own_network() -> None:
    wide, narrow = (
        json.loads(scale("--json", "--link", rate).out)["machines"]["strong"]
        for rate in ("1000", "1")
    )
    assert wide[1] == narrow[1]  # four small ones, whose link is given
    assert wide[3]["seconds"] < narrow[3]["seconds"]  # of the big ones, up alone


@pytest.mark.usefixtures("folder")
def test_without_layers_there_is_no_price() -> None:
    write()
    found = json.loads(scale("--json").out)
    assert found["machines"] is None
    assert "layers are unknown" in found["sentences"][0]


@pytest.mark.usefixtures("folder")
def test_the_help_names_the_prices_that_come_with_the_program() -> None:
    done = typed("fedsim", "scale", "--help")
    assert "--prices" in done.out
    assert "aws_gpus_2026" in done.out
    assert scale(prices="aws_gpus_2026").status == 0


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("machines: []\n", "machines: "),
        ("- 3\n", "expected a list of machines, found list"),
        ("{}\n", "machines: is missing"),
        (PRICES.replace("price: 4", "price: 0"), "price: should be greater than 0"),
        (PRICES.replace("price: 4,", ""), "price: is missing"),
        (PRICES.replace("name: big,", ""), "name: is missing"),
        (PRICES.replace("big", "small"), "two machines have one name"),
        (PRICES.replace("link", "lnk", 1), "did you mean 'link'?"),
        (PRICES.replace('"up=1000"', "up=0"), "link of big: up=0: expected Mbit/s"),
        (PRICES.replace('"up=1000"', "-3"), "link of big: -3"),
        (PRICES.replace('"up=1000"', "true"), "link"),
        ("machines: {", "not YAML"),
    ],
)
def test_a_wrong_price_file_gets_a_sentence(text: str, words: str) -> None:
    Path("prices.yaml").write_text(text)
    assert words in scale().sentence(USER)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ["none.yaml", ".", "aws_v100_2023"])
def test_prices_that_are_not_there_are_answered_by_those_that_are(name: str) -> None:
    sentence = scale(prices=name).sentence(USER)
    assert "come with the program: aws_gpus_2026" in sentence
