"""The laws that every controller keeps."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fedcore.aggregators import AggregatorConfig
from fedcore.clients import ClientAlgorithmConfig, LocalSGD
from fedcore.compressors import ErrorFeedback
from fedcore.controllers import (
    Assignment,
    Bandwidth,
    Controller,
    ControllerConfig,
    Gaia,
    IProf,
    Report,
    Request,
    ServerController,
    SkewScout,
    TaskReport,
    compose,
    compose_at_server,
)
from fedcore.errors import ConfigError
from fedcore.measured import Device, Measured
from fedcore.recipes import FedAvg, FedBuff
from fedcore.typing import State
from tests.laws.registered import name_of, named, variants
from tests.laws.test_aggregators import aggregate, some
from tests.laws.trees import reloaded, saved

# In this recipe the server sets the steps and the samples of a task.
ROLES = FedBuff(client=LocalSGD(steps=32, batch=16))


def server_half(config: ControllerConfig) -> ServerController | None:
    """The half at the server; None: there is none."""
    return config.build_server(ROLES)


ALL = variants(
    ControllerConfig,
    Bandwidth(upload_time=3),
    Bandwidth(daily=5000, least=0.5),
    Gaia(limit=10, most=0.01),
    IProf(seconds=2, base_seconds=0.1, base_samples=4, least=3, each="client"),
    SkewScout(every=1, memory=1),
)
EVERY = [config for config in ALL if config.build() is not None]
AT_SERVER = [config for config in ALL if server_half(config) is not None]

times = st.floats(0, 1e6)
reports = st.builds(
    Report,
    at=times,
    nbytes=st.integers(0, 10**6),
    upload_seconds=st.none() | st.floats(0, 1e4),
    message=st.none() | st.floats(0, 2),
    own=st.none() | st.builds(dict, accuracy=st.floats(0, 1)),
    public=st.none() | st.builds(dict, accuracy=st.floats(0, 1)),
)
streams = st.lists(reports, max_size=12)


def client_half(config: ControllerConfig) -> Controller:
    """The half on a client, where there is one."""
    half = config.build()
    assert half is not None
    return half


def after(rule: Controller, stream: list[Report], state: State = None) -> State:
    """The state after these reports."""
    state = rule.init() if state is None else state
    for report in stream:
        state = rule.observe(state, report)
    return state


@named(EVERY)
@given(streams)
def test_shares_are_above_zero_and_at_most_one(
    config: ControllerConfig, stream: list[Report]
) -> None:
    rule = client_half(config)
    given = rule.assign(after(rule, stream))
    assert 0 < given.work <= 1
    assert 0 < given.density <= 1


@named(EVERY)
@given(streams, st.integers(0, 10**6), times)
def test_a_rest_ends_and_then_the_bytes_may_pass(
    config: ControllerConfig, stream: list[Report], nbytes: int, at: float
) -> None:
    rule = client_half(config)
    state = after(rule, stream)
    wait = rule.rest(state, nbytes, at)
    assert 0 <= wait < math.inf
    assert rule.rest(state, nbytes, at + wait) == 0


@named(EVERY)
@given(streams, reports, times)
def test_functions_leave_the_state_as_it_is(
    config: ControllerConfig, stream: list[Report], report: Report, at: float
) -> None:
    rule = client_half(config)
    state = after(rule, stream)
    before = saved(state)
    assert rule.assign(state) == rule.assign(state)
    rule.rest(state, 100, at)
    rule.observe(state, report)
    assert saved(state) == before


@named(EVERY)
@given(streams, streams)
def test_a_state_from_the_disk_goes_on_alike(
    config: ControllerConfig, before: list[Report], since: list[Report]
) -> None:
    rule = compose({config.kind: client_half(config)})
    state = after(rule, before)
    loaded = reloaded(state, None)
    assert rule.assign(loaded) == rule.assign(state)
    assert saved(after(rule, since, loaded)) == saved(after(rule, since, state))


def _fixed(work: float, density: float, rest: float) -> Controller:
    return Controller(
        lambda: 0,
        lambda state, report: state + 1,
        lambda state: Assignment(work, density),
        lambda state, nbytes, at: rest,
    )


def test_shares_multiply_and_the_longest_rest_counts() -> None:
    both = compose({"a": _fixed(0.5, 1.0, 3.0), "b": _fixed(0.5, 0.2, 2.0)})
    state = both.observe(None, Report(at=0))
    assert state == {"a": 1, "b": 1}
    assert both.assign(state) == Assignment(0.25, 0.2)
    assert both.rest(state, 1, 0.0) == 3.0


@pytest.mark.parametrize(("work", "density"), [(1.0, 1.5), (1.0, 0.0), (-1.0, 1.0)])
def test_shares_that_cannot_be_are_refused(work: float, density: float) -> None:
    controller = compose({"mine": _fixed(work, density, 0.0)})
    with pytest.raises(ConfigError, match="controller mine assigned"):
        controller.assign(None)


def test_a_controller_that_joins_begins_anew_and_one_that_left_is_forgotten() -> None:
    now = compose({"b": _fixed(1, 1, 0), "c": _fixed(1, 1, 0)})
    assert now.observe({"a": 7, "b": 7}, Report(at=0)) == {"b": 8, "c": 1}


def test_there_is_one_controller_of_each_kind() -> None:
    twice = (Bandwidth(daily=9), Bandwidth(upload_time=9))
    with pytest.raises(ValidationError, match="one of each kind"):
        FedBuff(uplink=ErrorFeedback(), controllers=twice)


# ------------------------------------------------------------------ at the server

devices = st.builds(
    Device,
    model=st.sampled_from(["", "phone", "board"]),
    cores=st.none() | st.integers(-1, 10**6),
    mhz=st.none() | st.floats(),
    memory=st.none() | st.integers(0, 2**60),
    free=st.none() | st.integers(-5, 2**60),
    celsius=st.none() | st.floats(),
    battery=st.none() | st.floats(),
    core_watts=st.none() | st.floats(),
)
measurements = st.builds(
    Measured,
    samples=st.integers(0, 2**50),
    seconds=st.none() | st.floats(),
    joules=st.none() | st.floats(),
    device=st.none() | devices,
).map(Measured.clean)
tasks = st.builds(
    TaskReport,
    at=times,
    client=st.sampled_from(["a", "b"]),
    base=st.integers(0, 50),
    steps=st.integers(1, 100),
    loss=st.none() | st.floats(0, 1e6),
    measured=st.none() | measurements,
)
requests = st.builds(
    Request, client=st.sampled_from(["a", "c"]), device=st.none() | devices
).map(lambda asked: asked._replace(device=asked.device and asked.device.clean()))


def whole(config: ControllerConfig) -> ServerController:
    """The half at the server as a server has it, beside no others."""
    half = server_half(config)
    assert half is not None
    return compose_at_server({config.kind: half})


def seen(
    rule: ServerController, stream: list[TaskReport], state: State = None
) -> State:
    """The state after these reports."""
    for report in stream:
        state = rule.observe(state, report)
    return state


@named(AT_SERVER)
@given(st.lists(tasks, max_size=12), requests)
def test_whatever_clients_report_the_next_task_can_be_given(
    config: ControllerConfig, stream: list[TaskReport], request_: Request
) -> None:
    rule = whole(config)
    given_ = rule.assign(seen(rule, stream), request_)  # checks what was assigned
    assert given_.samples is None or given_.samples <= 10_000


@named(AT_SERVER)
@given(st.lists(tasks, max_size=8), st.lists(tasks, max_size=8), requests)
def test_a_servers_state_from_a_snapshot_goes_on_alike(
    config: ControllerConfig,
    before: list[TaskReport],
    since: list[TaskReport],
    request_: Request,
) -> None:
    rule = whole(config)
    state = seen(rule, before)
    kept = saved(state)
    loaded = reloaded(state, None)
    assert rule.assign(loaded, request_) == rule.assign(state, request_)
    assert saved(seen(rule, since, loaded)) == saved(seen(rule, since, state))
    assert saved(state) == kept


@named(AT_SERVER)
def test_a_half_at_the_server_is_known_by_the_settings(
    config: ControllerConfig,
) -> None:
    assert config.is_at_server


@named([config for config in EVERY if server_half(config) is None])
def test_a_half_on_the_client_alone_sizes_nothing_at_the_server(
    config: ControllerConfig,
) -> None:
    assert not config.is_at_server


@named(AT_SERVER)
@pytest.mark.parametrize("client", variants(ClientAlgorithmConfig), ids=name_of)
def test_no_task_is_sized_that_its_client_may_have_begun(
    config: ControllerConfig, client: ClientAlgorithmConfig
) -> None:
    if client.overlaps:
        with pytest.raises(ValidationError, match=f"controller {config.kind} "):
            FedAvg(client=client, controllers=(config,))


@named(variants(AggregatorConfig))
@pytest.mark.parametrize("controller", AT_SERVER, ids=name_of)
def test_tasks_of_half_the_size_count_as_whole_ones_or_are_refused(
    config: AggregatorConfig, controller: ControllerConfig
) -> None:
    """Where the server asks all for half of the steps, all have done their work."""
    try:
        FedAvg(client=LocalSGD(steps=32), aggregator=config, controllers=(controller,))
    except ValidationError:
        return
    whole = some(4, 0)
    half = [
        each._replace(work=0.5, effort=each.effort / 2, pace=each.pace / 2)
        for each in whole
    ]
    assert aggregate(config, half).tolist() == aggregate(config, whole).tolist()


def test_the_fewest_samples_of_several_controllers_count() -> None:
    def fixed(
        work: float = 1.0, density: float = 1.0, samples: int | None = None
    ) -> ServerController:
        given_ = Assignment(work, density, samples)
        return ServerController(
            lambda: 0, lambda state, report: state, lambda *_: given_
        )

    parts = {"a": fixed(0.5, 1.0, 30), "b": fixed(0.5, 0.5, 20), "c": fixed()}
    rule = compose_at_server(parts)
    assert rule.assign(None, Request("x")) == Assignment(0.25, 0.5, 20)
    with pytest.raises(ConfigError, match="controller d assigned"):
        compose_at_server({"d": fixed(1.0, 1.0, 0)}).assign(None, Request("x"))
