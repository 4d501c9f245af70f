"""Mistakes in the YAML and in ``--set``: one sentence each, and the status 78."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore.algorithm import AlgorithmConfig
from fedcore.compressors import CompressorConfig
from fedcore.config import Method, kind_of, methods
from fedcore.errors import ConfigError
from fedcore.staleness import StalenessConfig
from fedrun.config import FederationConfig, parse_config
from fedrun.files import load_model, save_model
from fedrun.run import open_run
from tests.integration.typed import WORKLOAD, Ended, desk, typed
from tests.served import settings


def kinds(role: type[Method]) -> str:
    """What a sentence lists; laws elsewhere hold that all methods are registered."""
    return ", ".join(sorted(map(kind_of, methods(role))))


TOP = (
    "algorithm, app, evaluate, journal, methods, model, seed, server, share_labels, "
    "simulate, stop, timeouts"
)
COMPRESSORS = kinds(CompressorConfig)
RECIPES = kinds(AlgorithmConfig)
STALENESS = kinds(StalenessConfig)
DISTRIBUTIONS = "empirical, exponential, log_normal, pareto, same, uniform, weibull"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with desk(tmp_path, monkeypatch) as here:
        yield here


def check(text: str, *options: str) -> Ended:
    """What ``fedserver check`` says of a file."""
    Path("fed.yaml").write_text(text)
    return typed("fedserver", "check", "fed.yaml", *options)


def refusal(text: str, *options: str) -> str:
    """The one sentence, without the name of the file."""
    sentence = check(text, *options).sentence(os.EX_CONFIG)
    return sentence.removeprefix("fed.yaml:").strip()


def compression(uplink: str) -> str:
    return f"algorithm: {{kind: fed_buff, uplink: {uplink}}}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "algoritm: {}",
            f"1: algoritm: unknown key; did you mean 'algorithm'?; allowed: {TOP}",
        ),
        (
            "seed: 1\nstop: {version: 3}",
            "2: stop.version: unknown key; did you mean 'versions'?; allowed: seconds, "
            "target, updates, versions",
        ),
        (
            "algorithm:\n  kind: fed_buff\n  uplink:\n    kind: error_feedback\n"
            "    inner: {kind: top_k, ration: 0.1}",
            "5: algorithm.uplink.inner.ration: unknown key; did you mean 'ratio'?; "
            "allowed: kind, ratio",
        ),
        (
            "simulate: {link: {uplink_mbit: 3}}",
            "1: simulate.link.uplink_mbit: unknown key; did you mean 'up_mbit'?; "
            "allowed: down_mbit, latency, latency_spread, spread, up_mbit",
        ),
        (
            "algorithm:\n  kind: fed_avg\n  client:\n    kind: ds_sync\n"
            "    overrides:\n    - {clients: phone-*, stepps: 5}",
            "6: algorithm.client.overrides.0.stepps: unknown key; did you mean "
            "'steps'?; allowed: batch, clients, clip_norm, clip_value, epochs, frozen, "
            "keep_momentum, lr, may_choose, momentum, nesterov, schedule, steps, "
            "weight_decay",
        ),
        (
            "algorithm:\n  kind: fed_avg\n  client:\n    kind: local_sgd\n"
            "    overrides:\n    - clients: phone-*\n"
            "      schedule: {kind: cosine, until: 9, untill: 2}",
            "7: algorithm.client.overrides.0.schedule.untill: unknown key; did you "
            "mean 'until'?; allowed: after, kind, to, until",
        ),
        ("zzz: 1", f"1: zzz: unknown key; allowed: {TOP}"),
        ("server: {tls: {certificate: a.pem}}", "1: server.tls.key: is missing"),
        ("seed: 1\nstop: {}\nseed: 2", "3: not YAML: 'seed' is there twice"),
        ("stop: {versions: 1, versions: 2}", "1: not YAML: 'versions' is there twice"),
    ],
)
def test_a_typo_in_a_key_is_answered_with_the_nearest_one(
    text: str, sentence: str
) -> None:
    assert refusal(text) == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "seed: abc",
            "1: seed: should be a valid integer, unable to parse string as an "
            "integer, got 'abc'",
        ),
        (
            "algorithm: {kind: fed_buff, buffer: 2.5}",
            "1: algorithm.buffer: should be a valid integer, got a number with a "
            "fractional part, got 2.5",
        ),
        (
            "share_labels: perhaps",
            "1: share_labels: should be a valid boolean, unable to interpret input, "
            "got 'perhaps'",
        ),
        (
            "stop: {target: {accuracy: high}}",
            "1: stop.target.accuracy: should be a valid number, unable to parse string "
            "as a number, got 'high'",
        ),
        (
            "stop: {target: 0.9}",
            "1: stop.target: should be a section of keys and values, got 0.9",
        ),
        ("stop: [1]", "1: stop: should be a section of keys and values, got [1]"),
        ("server:", "1: server: should be a section of keys and values, got None"),
        ("model: 3", "1: model: should be a path, got 3"),
        (
            "algorithm: {kind: fed_buff, uplink: {kind: per_tensor, exact: b}}",
            "1: algorithm.uplink.exact: should be a list, got 'b'",
        ),
        ("app: 5", "1: app: should be a valid string, got 5"),
        (
            "seed: 2020-01-01",
            "1: seed: should be a valid integer, unable to parse "
            "string as an integer, got '2020-01-01'",
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_shown_beside_what_is_expected(
    text: str, sentence: str
) -> None:
    assert refusal(text) == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("seed: -1", "1: seed: should be greater than or equal to 0, got -1"),
        (
            "seed: 99999999999999999999",
            "1: seed: should be less than 18446744073709551616, got "
            "99999999999999999999",
        ),
        (
            "algorithm: {kind: fed_buff, buffer: 0}",
            "1: algorithm.buffer: should be greater than or equal to 1, got 0",
        ),
        (
            "algorithm: {kind: fed_buff, client: {kind: local_sgd, lr: 0}}",
            "1: algorithm.client.lr: should be greater than 0, got 0",
        ),
        (
            compression("{kind: top_k, ratio: 7}"),
            "1: algorithm.uplink.ratio: should be less than or equal to 1, got 7",
        ),
        (
            "simulate: {dropout: 1}",
            "1: simulate.dropout.share: should be less than 1, got 1",
        ),
        (
            "stop: {seconds: .inf}",
            "1: stop.seconds: should be a finite number, got inf",
        ),
        (
            "evaluate: {every_versions: 0}",
            "1: evaluate.every_versions: should be greater than or equal to 1, got 0",
        ),
        (
            "server: {listen: 8443}",
            "1: server.listen: should be a valid string, got 8443",
        ),
        (
            "server: {listen: 'localhost:99999'}",
            "1: server.listen: expected HOST:PORT, such as 127.0.0.1:8443",
        ),
        (
            "simulate: {availability: {kind: never}}",
            "1: simulate.availability.kind: should be 'always', 'on_off', 'diurnal' "
            "or 'trace', got 'never'",
        ),
    ],
)
def test_a_value_out_of_range_is_shown_beside_the_range(
    text: str, sentence: str
) -> None:
    assert refusal(text) == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "algorithm: {kind: lastcomer}",
            "1: algorithm: unknown recipe 'lastcomer'; did you mean 'latecomer'?; "
            f"kinds: {RECIPES}",
        ),
        ("algorithm: {buffer: 3}", f"1: algorithm: needs a kind; kinds: {RECIPES}"),
        ("algorithm:", f"1: algorithm: needs a kind; kinds: {RECIPES}"),
        ("algorithm: {kind: 3}", f"1: algorithm: unknown recipe '3'; kinds: {RECIPES}"),
        (
            compression("{kind: error_feedback, inner: {kind: topk}}"),
            "1: algorithm.uplink.inner: unknown compressor 'topk'; did you mean "
            f"'top_k'?; kinds: {COMPRESSORS}",
        ),
        (
            "algorithm: {kind: fed_buff, staleness: ada_sgd}",
            f"1: algorithm.staleness: needs a kind; kinds: {STALENESS}",
        ),
        (
            "simulate: {speed: {kind: lognormal}}",
            "1: simulate.speed: unknown distribution 'lognormal'; did you mean "
            f"'log_normal'?; kinds: {DISTRIBUTIONS}",
        ),
    ],
)
def test_an_unknown_kind_is_answered_with_all_kinds(text: str, sentence: str) -> None:
    said = refusal(text).replace("halving_for_the_model_check, ", "")  # of a test
    assert said == sentence


UNBIASED = (
    "with these settings, and an error memory around it grows without end; choose a "
    "contraction (such as top_k, sign_l1, random_k with unbiased: false, uniform with "
    "rounding: nearest)"
)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            compression(
                "{kind: error_feedback, inner: {kind: random_k, ratio: 0.1, "
                "unbiased: true}}"
            ),
            f"1: algorithm.uplink: random_k is unbiased {UNBIASED}",
        ),
        (
            compression("{kind: error_feedback, inner: {kind: error_feedback}}"),
            "1: algorithm.uplink: error_feedback inside error_feedback: one memory is "
            "enough",
        ),
        (
            "algorithm: {kind: fed_buff, downlink: {kind: error_feedback}}",
            "1: algorithm: downlink: the server's memory is W - X in any case; name "
            "the inner compressor alone (top_k)",
        ),
        (
            "algorithm: {kind: fed_avg, buffer: 10}\nsimulate: {clients: 4}",
            "(whole file): algorithm.buffer is 10, and simulate.clients only 4: "
            "no round would have enough clients",
        ),
        (
            "algorithm: {kind: fed_buff, min_clients: 10}\nsimulate: {clients: 4}",
            "(whole file): algorithm.min_clients is 10, and simulate.clients only 4",
        ),
        (
            "algorithm: {kind: fed_avg, buffer: 3, minimum: 5}",
            "1: algorithm: minimum 5 is above buffer 3",
        ),
        (
            "algorithm: {kind: fed_avg, concurrency: 5}",
            "1: algorithm: concurrency is for asynchronous algorithms; use "
            "over_selection",
        ),
        (
            "algorithm: {kind: fed_buff, over_selection: 2}",
            "1: algorithm: over_selection is for synchronous algorithms; use "
            "concurrency",
        ),
        (
            "algorithm: {kind: fed_buff, client: {kind: local_sgd, steps: 3, "
            "epochs: 2}}",
            "1: algorithm.client: give steps or epochs, not both",
        ),
        (
            "simulate: {speed: {kind: uniform, low: 3, high: 1}}",
            "1: simulate.speed: low 3.0 is above high 1.0",
        ),
        (
            "simulate: {speed: {kind: empirical}}",
            "1: simulate.speed: give values or a file that has them, one of both",
        ),
        (
            "simulate: {availability: {there_seconds: 60}}",
            "1: simulate.availability: there_seconds belongs to kind on_off, and the "
            "kind is always",
        ),
        (
            "simulate: {availability: {kind: trace}}",
            "1: simulate: availability of kind trace needs a file, unless "
            "simulate.trace is one",
        ),
        (
            "simulate: {trace: a.csv, arrivals: run}",
            "1: simulate: trace and arrivals exclude one another: give one",
        ),
        (
            "simulate: {dropout: {kind: by_labels, share: 0.2}}",
            "1: simulate.dropout: by_labels needs labels, such as [0, 1]",
        ),
        (
            "simulate: {dropout: {share: 0.2, power: 2}}",
            "1: simulate.dropout: power belongs to kind by_speed, and the kind is "
            "independent",
        ),
        (
            "timeouts: {heartbeat: 5, lost: 2}",
            "1: timeouts: lost 2 must be above heartbeat 5: clients would be lost "
            "between two heartbeats",
        ),
        (
            "server: {listen: '0.0.0.0:8443'}",
            "1: server: listen 0.0.0.0:8443 is reachable from other machines: set "
            "tls, or plaintext: true",
        ),
    ],
)
def test_settings_that_make_no_sense_together_are_refused(
    text: str, sentence: str
) -> None:
    assert refusal(text) == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("- a\n- b", "expected keys and values, found list"),
        ("just text", "expected keys and values, found str"),
        (
            "seed: 1\nstop: [1",
            "2: not YAML: expected ',' or ']', but got '<stream end>'",
        ),
        ("\tseed: 1", "1: not YAML: found character '\\t' that cannot start any token"),
        (
            "seed: !!python/object:os.system {}",
            "1: not YAML: could not determine a constructor for the tag "
            "'tag:yaml.org,2002:python/object:os.system'",
        ),
        (
            "seed: \x01",
            "not YAML: unacceptable character #x0001: special characters are not "
            'allowed in "<unicode string>", position 6',
        ),
    ],
)
def test_what_is_no_config_at_all_is_refused_with_the_line(
    text: str, sentence: str
) -> None:
    assert refusal(text) == sentence


def test_a_config_that_is_no_text_is_refused() -> None:
    Path("fed.yaml").write_bytes(b"\xff\xfe\x00")
    done = typed("fedserver", "check", "fed.yaml")
    assert done.sentence(os.EX_CONFIG) == "fed.yaml: not a text in UTF-8"


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("nowhere.yaml", "nowhere.yaml: No such file or directory"),
        (".", ".: Is a directory"),
    ],
)
@pytest.mark.parametrize(
    "command", [("fedserver", "check"), ("fedserver", "run"), ("fedsim", "run")]
)
def test_a_config_that_is_not_there_is_named(
    command: tuple[str, str], path: str, sentence: str
) -> None:
    assert typed(*command, path).sentence(os.EX_CONFIG) == sentence


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("stop", "--set stop: expected field=value, such as stop.versions=10"),
        ("=3", "--set =3: expected field=value, such as stop.versions=10"),
        (
            "stop.versions=[",
            "--set stop.versions=[: '[' is not a YAML value: expected the node "
            "content, but found '<stream end>'",
        ),
        ("seed.x=3", "--set seed.x=3: 'seed' is a value, not a section"),
        (
            "stop.version=3",
            "stop.version=3: unknown key; did you mean 'versions'?; allowed: "
            "seconds, target, updates, versions",
        ),
        (
            "stop.versions=0",
            "stop.versions=0: should be greater than or equal to 1, got 0",
        ),
        (
            "algorithm.kind=fedavg",
            "algorithm.kind=fedavg: unknown recipe 'fedavg'; did you mean 'fed_avg'?; "
            f"kinds: {RECIPES}",
        ),
        (
            "stop={version: 3}",
            "stop={version: 3}: stop.version: unknown key; did you mean 'versions'?; "
            "allowed: seconds, target, updates, versions",
        ),
        (
            "simulate.dropout.kind=by_labels",
            "simulate.dropout.kind=by_labels: simulate.dropout: by_labels needs "
            "labels, such as [0, 1]",
        ),
        ("sed.x=1", f"sed.x=1: sed: unknown key; did you mean 'seed'?; allowed: {TOP}"),
        ("stop.versions=yes", "stop.versions=yes: should be a valid integer, got True"),
        (
            "stop.target={loss: yes}",
            "stop.target={loss: yes}: should be a valid number, got {'loss': True}",
        ),
        ("server.journal=''", "server.journal='': should be a path, got ''"),
        (
            "simulate.dropout=10%",
            "simulate.dropout=10%: should be a share, such as 0.1, or a section of "
            "keys and values, got '10%'",
        ),
    ],
)
@pytest.mark.parametrize("command", [("fedserver", "check"), ("fedsim", "run")])
def test_a_change_on_the_command_line_is_checked_like_the_file(
    command: tuple[str, str], change: str, sentence: str
) -> None:
    Path("fed.yaml").write_text("seed: 1")
    done = typed(*command, "fed.yaml", "--set", change)
    assert done.sentence(os.EX_CONFIG) == sentence


def test_changes_that_do_not_fit_each_other_or_the_file_are_named() -> None:
    text = "seed: 1\nsimulate: {engine: {kind: stacked}}"
    both = ["simulate.engine.kind=exact", "simulate.engine.processes=3"]
    done = check(text, *(word for each in both for word in ("--set", each)))
    assert done.sentence(os.EX_CONFIG).startswith(f"{', '.join(both)}: simulate.engine")
    text = "simulate: {clients: 2}\nalgorithm: {kind: fed_avg}"
    Path("fed.yaml").write_text(text)
    few = typed("fedsim", "run", "fed.yaml", "--set", "algorithm.buffer=99")
    assert few.sentence(os.EX_CONFIG).startswith("algorithm.buffer=99: ")


def test_a_mistake_of_the_file_beside_a_change_has_its_line() -> None:
    done = check("seed: 1\nstop: {version: 3}", "--set", "stop.updates=0")
    assert [line.removeprefix("error: ") for line in done.errors] == [
        "stop.updates=0: should be greater than or equal to 1, got 0",
        "fed.yaml:2: stop.version: unknown key; did you mean 'versions'?; allowed: "
        "seconds, target, updates, versions",
    ]


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file() -> None:
    done = check("stop: {versions: 0}\nalgoritm: {}\nsead: 1\nmodel: 3")
    assert done.status == os.EX_CONFIG
    assert [error.split(":")[1] for error in done.errors] == ["1", "2", "3", "4"]


def test_server_and_simulator_refuse_the_same_file_with_the_same_sentence() -> None:
    check("stop: {versions: 0}")
    commands = ("fedserver", "check"), ("fedserver", "run"), ("fedsim", "run")
    said = {typed(*c, "fed.yaml").sentence(os.EX_CONFIG) for c in commands}
    assert len(said) == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            f"app: {WORKLOAD}",
            "stop: a simulation needs an end: versions, updates, seconds or target",
        ),
        (
            "stop: {versions: 3}",
            "fed.yaml: app: is missing; the simulator needs the workload: "
            "name it in the config, or with --app module:attribute",
        ),
    ],
)
def test_a_simulation_needs_an_app_and_an_end(text: str, sentence: str) -> None:
    Path("fed.yaml").write_text(text)
    assert typed("fedsim", "run", "fed.yaml").sentence(os.EX_CONFIG) == sentence


def test_a_server_needs_a_model_or_an_app_to_make_it_from(folder: Path) -> None:
    Path("fed.yaml").write_text("model: m.safetensors")
    sentence = typed("fedserver", "run", "fed.yaml").sentence(os.EX_CONFIG)
    assert sentence == (
        f"{folder}/m.safetensors: no such file, and no app to make it from; run: "
        f"fedclient model --app APP -o {folder}/m.safetensors"
    )


def begun(folder: Path, **changes: Any) -> FederationConfig:
    """A federation whose run has begun, and whose config lies in fed.yaml."""
    config = settings(folder, **changes)
    open_run(config, 0.0).journal.close()
    Path("fed.yaml").write_text(config.model_dump_json())
    return config


@pytest.mark.parametrize(
    ("options", "changed", "way_out"),
    [
        (
            ["--set", "algorithm.buffer=7"],
            "algorithm.buffer: 1 -> 7",
            "put them back, or start another run (server.journal), or say --amend",
        ),
        (
            ["--set", "seed=7", "--amend"],
            "seed: 0 -> 7",
            "put them back, or start another run (server.journal)",
        ),
    ],
)
def test_a_restart_with_another_algorithm_or_seed_is_refused_by_field(
    folder: Path, options: list[str], changed: str, way_out: str
) -> None:
    config = begun(folder)
    done = typed("fedserver", "run", "fed.yaml", *options)
    assert done.sentence(os.EX_CONFIG) == (
        f"{config.server.journal}: this run began with other settings: {changed}; "
        f"{way_out}"
    )


def test_a_restart_with_another_model_is_refused(folder: Path) -> None:
    config = begun(folder)
    spec, initial_D = load_model(config.model)
    save_model(config.model, spec, initial_D + 1)
    sentence = typed("fedserver", "run", "fed.yaml").sentence(os.EX_DATAERR)
    assert sentence.startswith(
        f"{config.model} is not the model that this run began with"
    )


# ------------------------------------------------------------------------- laws


def keys_of(raw: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of all keys, down to the last section."""
    if isinstance(raw, dict):
        for key, value in raw.items():
            yield (*path, key)
            yield from keys_of(value, (*path, key))


def full() -> Any:
    """A config in which everything is said."""
    return parse_config({"stop": {"target": {"accuracy": 1}}}).model_dump(mode="json")


def place(raw: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        raw = raw[key]
    return raw


KEYS = [path for path in keys_of(full()) if path[:2] != ("stop", "target")]


@pytest.mark.parametrize("path", KEYS, ids=".".join)
def test_every_key_is_found_when_its_last_letter_is_missing(
    path: tuple[str, ...],
) -> None:
    *parents, key = path
    if key == "kind":
        return  # its absence is another mistake
    raw = full()
    section = place(raw, tuple(parents))
    section[key[:-1]] = section.pop(key)
    with pytest.raises(ConfigError, match=re.escape(f"did you mean {key!r}?")):
        parse_config(raw)


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["top_k", "latecomer", "error_feedback", "uniform"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["kind", "inner", "ratio", "tls", "x"])
            | st.text(max_size=4),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


@given(st.sampled_from(list(keys_of(full()))), ANYTHING)
def test_any_value_at_any_key_is_taken_or_refused_by_field(
    path: tuple[str, ...], value: Any
) -> None:
    raw = full()
    place(raw, path[:-1])[path[-1]] = value
    try:
        config = parse_config(raw)
    except ConfigError as error:
        for line in str(error).splitlines():
            assert path[0] in line or "(whole file)" in line
    else:
        assert parse_config(config.model_dump(mode="json")) == config
