"""I-Prof predicts what a device takes, and gives it as much as fits."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fedcore.clients import FedProx, LocalSGD
from fedcore.controllers import (
    Assignment,
    IProf,
    Request,
    ServerController,
    TaskReport,
)
from fedcore.controllers.i_prof import Slopes, facts, predict, solve
from fedcore.measured import Device, Measured
from fedcore.recipes import FedBuff, Fleet
from fedcore.typing import State

GIB = 1 << 30
DEVICE = Device("phone", 4, 2000.0, 4 * GIB, 2 * GIB, 40.0)
SQUARE = sum(fact**2 for fact in facts(DEVICE))
ROLES = FedBuff(client=LocalSGD(steps=4))


def half(**settings: object) -> ServerController:
    """The half at the server."""
    config = IProf.model_validate({"seconds": 10.0} | settings)
    rule = config.build_server(ROLES)
    assert rule is not None
    return rule


def report(
    samples: int,
    seconds: float | None,
    device: Device | None = DEVICE,
    client: str = "ann",
    joules: float | None = None,
) -> TaskReport:
    """What a task took."""
    took = Measured(samples, seconds, joules, device)
    return TaskReport(0.0, client, 0, 1, measured=took)


def after(rule: ServerController, *reports: TaskReport) -> State:
    """The state that reports lead to."""
    state = rule.init()
    for each in reports:
        state = rule.observe(state, each)
    return state


def samples(
    rule: ServerController, state: State, device: Device | None = DEVICE
) -> int:
    """What a task of this device is given."""
    given = rule.assign(state, Request("ann", device)).samples
    assert given is not None
    return given


def test_before_any_report_a_task_is_as_usual() -> None:
    rule = half()
    assert rule.assign(rule.init(), Request("ann", DEVICE)) == Assignment()


def test_a_known_device_gets_what_it_can_do_in_the_time() -> None:
    rule = half()
    state = after(rule, report(100, 2.0), report(100, 2.0))  # 20 ms a sample
    assert samples(rule, state) == pytest.approx(500, abs=1)


def test_time_of_an_empty_task_is_left_out_of_the_slope() -> None:
    rule = half(base_seconds=0.1, base_samples=8)
    state = after(rule, *[report(108, 2.1)] * 2)
    assert samples(rule, state) == pytest.approx(9.9 / 0.02 + 8, abs=1)


def test_the_tighter_objective_counts() -> None:
    rule = half(joules=5.0)
    state = after(rule, *[report(100, 2.0, joules=2.0)] * 2)
    assert samples(rule, state) == pytest.approx(250, abs=1)


def test_samples_stay_between_least_and_most() -> None:
    rule = half(least=50, most=60)
    assert samples(rule, after(rule, *[report(1, 9.0)] * 2)) == 50
    assert samples(rule, after(rule, *[report(1000, 0.1)] * 2)) == 60


@pytest.mark.parametrize("goals", [(1.0, 2.0), (5.0, 50.0)])
def test_more_time_never_gives_fewer_samples(goals: tuple[float, float]) -> None:
    given = [
        samples(rule, after(rule, report(100, 2.0)))
        for rule in (half(seconds=seconds) for seconds in goals)
    ]
    assert given == sorted(given)


def test_a_small_error_changes_nothing() -> None:
    rule = half(epsilon=0.1)
    state = after(rule, *[report(100, 2.0)] * 3)
    near = rule.observe(state, report(100, 2.1))
    key = "model phone"
    before, since = Slopes(*state[0]), Slopes(*near[0])
    assert since.models[key] == before.models[key]
    far = Slopes(*rule.observe(state, report(100, 2.5))[0])
    assert far.models[key] != before.models[key]


def test_one_step_takes_the_error_away_if_c_does_not_bind() -> None:
    rule = half(epsilon=0.0)
    state = after(rule, report(100, 2.0), report(100, 3.0))
    found = predict(Slopes(*state[0]), "model phone", facts(DEVICE))
    assert found == pytest.approx(0.03)


def test_c_bounds_what_one_outlier_does() -> None:
    rule = half(epsilon=0.0, aggressiveness=0.5)
    state = after(rule, report(100, 2.0), report(100, 199.0))
    found = predict(Slopes(*state[0]), "model phone", facts(DEVICE))
    assert found == pytest.approx(0.02 + 0.5 * 0.02 * SQUARE, rel=1e-4)


def test_an_unknown_device_is_predicted_by_least_squares_alone() -> None:
    rng = np.random.default_rng(0)
    truth_F = np.array([0.01, 0.0, 0.0, 0.02, 0.005])
    rule, rows, slopes = half(epsilon=0.0), [], []
    state = rule.init()
    for number in range(12):
        cores, mhz = int(rng.integers(2, 9)), float(rng.uniform(1000, 3000))
        memory, free = (int(rng.integers(1, 9) * GIB) for _ in range(2))
        celsius = float(rng.uniform(20, 60))
        device = Device(f"model-{number}", cores, mhz, memory, free, celsius)
        slope = float(np.dot(facts(device), truth_F))
        rows.append(facts(device))
        slopes.append(slope)
        state = rule.observe(state, report(100, 100 * slope, device))
    known = Slopes(*state[0])
    least_F = np.linalg.lstsq(np.array(rows), np.array(slopes), rcond=None)[0]
    np.testing.assert_allclose(solve(known), least_F, atol=2e-4)
    expected = float(np.dot(facts(DEVICE), truth_F))
    assert predict(known, "model new", facts(DEVICE)) == pytest.approx(
        expected, rel=0.01
    )


def test_no_device_is_predicted_to_be_faster_than_all_that_were_seen() -> None:
    rule = half()
    slow, fast, faster = (Device(f"at {mhz}", 4, mhz) for mhz in (1000, 2000, 3000))
    state = after(rule, report(100, 100.0, slow), report(100, 20.0, fast, "bob"))
    # A line through both slopes would be below 0.
    assert samples(rule, state, faster) == pytest.approx(10 / 0.2, abs=1)


def test_the_regression_of_a_device_model_is_kept_from_task_to_task() -> None:
    """The published code begins it anew with each task."""
    rule = half(epsilon=0.0, aggressiveness=0.1)
    slow = [report(100, 4.0)] * 3
    state = after(rule, report(100, 1.0), *slow)
    found = predict(Slopes(*state[0]), "model phone", facts(DEVICE))
    assert found == pytest.approx(0.01 * (1 + 0.1 * SQUARE) ** 3, rel=0.01)


LAW_F = np.array([0.002, 0.001, 0.001, 0.004, 0.002])
"""The slopes of devices that are as their facts say."""
phones = st.builds(
    Device,
    cores=st.integers(1, 16),
    mhz=st.floats(100, 4000),
    memory=st.integers(GIB // 2, 32 * GIB),
    free=st.integers(0, 16 * GIB),
    celsius=st.floats(0, 60),
)


def tasks_to_learn(
    rule: ServerController, device: Device, factor: float, noise: float, seed: int
) -> int:
    """The tasks of a device until its slope is predicted, up to four times the noise.

    The slope is ``factor`` times that of its facts.
    """
    rng, state = np.random.default_rng(seed), rule.init()
    for number in range(20):
        cores, mhz = int(rng.integers(1, 9)), float(rng.uniform(500, 3000))
        memory, free = (int(rng.integers(1, 17) * GIB) for _ in range(2))
        known = Device(f"{number}", cores, mhz, memory, free, rng.uniform(20, 60))
        seconds = 100 * float(np.dot(facts(known), LAW_F))
        state = rule.observe(state, report(100, seconds, known, client=known.model))
    device = device._replace(model="new")
    slope = factor * float(np.dot(facts(device), LAW_F))
    for task in range(1, 100):
        took = 100 * slope * math.exp(noise * rng.standard_normal())
        state = rule.observe(state, report(100, took, device))
        found = predict(Slopes(*state[0]), "model new", facts(device))
        if abs(found / slope - 1) <= max(0.02, 4 * noise):
            return task
    return 100


@settings(deadline=None, max_examples=50)
@given(phones, st.floats(-3, 3), st.floats(0.3, 3))
def test_a_device_that_its_facts_say_little_of_is_learnt_in_the_tasks_that_c_allows(
    device: Device, logarithm: float, aggressiveness: float
) -> None:
    rule = half(aggressiveness=aggressiveness)
    tasks = tasks_to_learn(rule, device, math.exp(logarithm), 0.0, 0)
    assert tasks <= 2 + abs(logarithm) / math.log1p(aggressiveness)


@pytest.mark.parametrize("factor", [1 / 20, 1 / 5, 2, 5, 20])
@pytest.mark.parametrize("device", [DEVICE, Device(cores=1, mhz=200, memory=GIB)])
def test_devices_far_from_their_facts_are_learnt_in_a_few_noisy_tasks(
    device: Device, factor: float
) -> None:
    for seed in range(5):
        assert tasks_to_learn(half(), device, factor, 0.05, seed) <= 5


@pytest.mark.parametrize("factor", [1 / 20, 20])
def test_shares_of_the_first_prediction_would_take_many_tasks(factor: float) -> None:
    """The rule with a constant C and ε, which the paper has: a negative control."""
    slope, found, square, tasks = factor, 1.0, 1.5, 0  # the first prediction is 1
    while abs(found / slope - 1) > 0.1 and tasks < 100:
        loss = max(0.0, abs(slope - found) - 0.01)
        found += math.copysign(min(1.0, loss / square), slope - found) * square
        tasks += 1
    assert tasks > 10


@pytest.mark.parametrize("each", ["model", "client"])
def test_clients_of_one_model_share_a_regression_if_they_may(each: str) -> None:
    rule = half(each=each)
    state = after(rule, *[report(100, 2.0, client="ann")] * 2)
    state = rule.observe(state, report(100, 8.0, client="bob"))
    bob = rule.assign(state, Request("bob", DEVICE)).samples
    ann = rule.assign(state, Request("ann", DEVICE)).samples
    assert bob is not None
    assert ann is not None
    assert (ann == bob) == (each == "model")
    assert each == "model" or ann > 1.5 * bob


def test_the_newest_device_models_are_kept() -> None:
    rule = half()
    named = (DEVICE._replace(model=str(number)) for number in range(1005))
    state = after(rule, *(report(100, 2.0, device) for device in named))
    known = Slopes(*state[0])
    assert len(known.models) == 1000
    assert "model 1004" in known.models
    assert "model 0" not in known.models


@pytest.mark.parametrize("seconds", [None, 0.0, 1e-15])
def test_a_task_without_a_duration_teaches_nothing(seconds: float | None) -> None:
    rule = half()
    assert Slopes(*after(rule, report(100, seconds))[0]).seen == 0


def test_facts_that_are_unknown_count_as_usual_ones() -> None:
    assert facts(None) == facts(Device()) == (1.0,) * 5
    impossible = Device("x" * 99, -1, math.nan, 0, -5, 9000.0, 7.0).clean()
    assert impossible == Device("x" * 64)


def test_an_objective_is_needed() -> None:
    with pytest.raises(ValidationError, match="no objective"):
        IProf()
    with pytest.raises(ValidationError, match="not above base_seconds"):
        IProf(seconds=0.1, base_seconds=0.1)
    with pytest.raises(ValidationError, match="least 9 is above most 8"):
        IProf(seconds=1, least=9, most=8)


@pytest.mark.parametrize(
    ("client", "wanted", "steps", "batch"),
    [
        (LocalSGD(steps=4, batch=16), 100, 6, 16),
        (FedProx(epochs=2, batch=20), 100, 5, 20),
        (LocalSGD(steps=1, batch=100), 37, 1, 37),  # FLeet: one gradient
        (LocalSGD(epochs=1, batch=64), 90, 3, 64),  # its client has 30 samples
    ],
)
def test_samples_become_steps_or_the_size_of_the_one_batch(
    client: LocalSGD, wanted: int, steps: int, batch: int
) -> None:
    have = 30 if batch == 64 else 1000
    sized = client.with_samples(wanted)
    assert (sized.batch, client.steps_of(have, 1.0, wanted)) == (batch, steps)


def test_the_size_of_a_batch_decides_how_long_one_step_takes() -> None:
    fleet = Fleet().client
    assert fleet.in_usual_steps(1000, 1, 50) == 0.5
    assert fleet.in_usual_steps(1000, 1, None) == 1
    assert LocalSGD(steps=4).in_usual_steps(1000, 6, 96) == 6


def test_samples_that_are_used_are_those_of_the_batches() -> None:
    client = LocalSGD(steps=9, batch=16)
    assert client.used_by(40, 3) == 40  # 16, 16 and 8
    assert client.used_by(40, 4) == 56
    assert client.used_by(10, 3) == 30


PHONES = [DEVICE._replace(model=f"phone {number}") for number in range(4)]


@pytest.mark.parametrize("seconds", [1e7, 1e-6])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("claimed", ["a model of its own", "the model of another"])
def test_an_absurd_duration_hurts_its_own_client_alone(
    seconds: float, first: bool, claimed: str
) -> None:
    rule = half(each="model" if claimed == "a model of its own" else "client")
    model = "mine" if claimed == "a model of its own" else "phone 0"
    absurd = [report(1, seconds, DEVICE._replace(model=model), client="mallory")] * 3
    honest = [
        report(100, 2.0, device, client=device.model)
        for device in PHONES
        for _ in "123"
    ]
    state = after(rule, *(absurd + honest if first else honest + absurd))
    for device in [*PHONES, DEVICE._replace(model="new")]:
        given = rule.assign(state, Request(device.model, device)).samples
        assert given == pytest.approx(500, rel=0.02)


def test_who_claims_the_model_of_others_holds_them_up_by_a_bounded_factor() -> None:
    rule = half()
    honest = [report(100, 2.0, device, client=device.model) for device in PHONES]
    absurd = [report(1, 1e7, PHONES[0], client="mallory")] * 1000
    state = after(rule, *honest, *absurd)
    assert samples(rule, state, PHONES[0]) == 5  # a hundredth of 500
    for _ in range(100):  # as many tasks take it back
        state = rule.observe(state, honest[0])
    assert samples(rule, state, PHONES[0]) >= 490


def test_what_liars_taught_at_first_is_bounded_and_gone_after_a_task() -> None:
    rule = half()
    liars = [report(1, 1e7, PHONES[0], client=f"liar {number}") for number in "12"]
    honest = [report(100, 2.0, device, client=device.model) for device in PHONES]
    state = after(rule, *liars, *honest)
    assert samples(rule, state, PHONES[0]) == 5  # a hundredth of 500
    state = rule.observe(state, honest[0])
    assert samples(rule, state, PHONES[0]) == pytest.approx(500, rel=0.02)


def test_slopes_that_are_all_far_apart_teach_nothing() -> None:
    rule = half()
    apart = [report(1, seconds, client=f"{seconds}") for seconds in (1.0, 5e2, 1e6)]
    state = after(rule, *apart)
    assert rule.assign(state, Request("ann", DEVICE)) == Assignment()


def test_the_power_of_a_busy_core_tells_of_energy_and_not_of_time() -> None:
    rule = half(joules=50.0)
    state = rule.init()
    for number, watts in enumerate((0.5, 1.0, 2.0, 4.0)):
        device = DEVICE._replace(model=f"{number}", core_watts=watts)
        each = report(100, 2.0, device, f"{number}", joules=10 * watts)
        state = rule.observe(state, each)
    for watts, most in ((2.5, 200), (1.0, 500), (0.6, 500)):
        new = DEVICE._replace(model="new", core_watts=watts)
        assert samples(rule, state, new) == pytest.approx(most, rel=0.01)


def test_absurd_facts_count_as_large_ones() -> None:
    assert max(facts(DEVICE._replace(memory=1 << 50, mhz=1e6))) == 100
