"""The YAML: defaults, paths, changes, and what a server tells its clients."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from fedcore.algorithm import AlgorithmConfig
from fedcore.config import kind_of, methods
from fedcore.errors import ConfigError
from fedcore.recipes import FedAvg, Latecomer
from fedrun.config import FederationConfig, load_config, parse_config
from fedrun.config.load import change_config, parse_algorithm
from fedrun.config.model import ServerConfig

RECIPES = sorted(map(kind_of, methods(AlgorithmConfig)))


def written(folder: Path, text: str, *changes: str) -> FederationConfig:
    path = folder / "federation.yaml"
    path.write_text(text)
    return load_config(path, changes)


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "{}"])
def test_an_empty_file_is_all_defaults(text: str, tmp_path: Path) -> None:
    config = written(tmp_path, text)
    assert config.algorithm == Latecomer()
    assert (config.app, config.seed) == (None, 0)


def test_a_recipe_fills_what_is_not_said(tmp_path: Path) -> None:
    config = written(tmp_path, "algorithm: {kind: fed_avg, buffer: 3}")
    assert config.algorithm == FedAvg(buffer=3)


@pytest.mark.parametrize("kind", RECIPES)
def test_what_check_prints_is_the_same_config(kind: str, tmp_path: Path) -> None:
    config = written(tmp_path, f"algorithm: {{kind: {kind}}}")
    printed = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)
    assert written(tmp_path, printed) == config


@pytest.mark.parametrize("kind", RECIPES)
def test_a_client_reads_the_algorithm_that_the_server_tells(kind: str) -> None:
    algorithm = parse_config({"algorithm": {"kind": kind}}).algorithm
    assert parse_algorithm(algorithm.model_dump_json()) == algorithm


@pytest.mark.parametrize("text", ["", "{}", "3", '{"kind": "fed_avg", "new": 1}'])
def test_an_algorithm_that_is_not_understood_is_a_config_error(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_algorithm(text)


def test_paths_are_taken_from_the_folder_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    (tmp_path / "fed.yaml").write_text(
        "model: m.safetensors\n"
        "server:\n"
        "  journal: runs/a\n"
        "  tls: {certificate: c.pem, key: /keys/k.pem, client_ca: ca.pem}\n"
        "simulate: {arrivals: ../old}\n"
    )
    config = load_config(Path("../fed.yaml"))
    tls = config.server.tls
    assert tls is not None
    assert config.model == tmp_path / "m.safetensors"
    assert config.server.journal == tmp_path / "runs/a"
    assert (tls.certificate, tls.key) == (tmp_path / "c.pem", Path("/keys/k.pem"))
    assert tls.client_ca == tmp_path / "ca.pem"
    assert config.simulate.arrivals == tmp_path / "../old"


@pytest.mark.parametrize(
    ("change", "path", "value"),
    [
        ("seed=7", ("seed",), 7),
        ("algorithm.buffer=8", ("algorithm", "buffer"), 8),
        ("stop.target={accuracy: 0.9}", ("stop", "target"), {"accuracy": 0.9}),
        ("stop.target.accuracy=0.9", ("stop", "target"), {"accuracy": 0.9}),
        ("app=a:b=c", ("app",), "a:b=c"),
        ("stop.versions=", ("stop", "versions"), None),
        ("share_labels=no", ("share_labels",), False),
    ],
)
def test_a_change_is_one_field_read_as_yaml(
    change: str, path: tuple[str, ...], value: Any
) -> None:
    raw: dict[str, Any] = {"algorithm": {"kind": "fed_avg"}}
    change_config(raw, change)
    place: Any = raw
    for step in path:
        place = place[step]
    assert place == value
    parse_config(raw)


def test_another_method_does_not_inherit_the_settings_of_the_last(
    tmp_path: Path,
) -> None:
    text = "algorithm: {kind: fed_buff, buffer: 3, uplink: {kind: top_k, ratio: 0.2}}"
    config = written(tmp_path, text, "algorithm.uplink.kind=sign_l1")
    assert config.algorithm.uplink.kind == "sign_l1"
    same = written(tmp_path, text, "algorithm.uplink.kind=top_k")
    assert same.algorithm.uplink.model_dump() == {"kind": "top_k", "ratio": 0.2}


def test_another_recipe_keeps_what_was_said_of_its_parts(tmp_path: Path) -> None:
    text = "algorithm: {kind: fed_buff, buffer: 3}"
    assert written(tmp_path, text, "algorithm.kind=fed_avg").algorithm.buffer == 3


@pytest.mark.parametrize(
    ("listen", "host", "local"),
    [
        ("127.0.0.1:0", "127.0.0.1", True),
        ("localhost:8443", "localhost", True),
        ("[::1]:8443", "::1", True),
        ("127.1.2.3:8443", "127.1.2.3", True),
        ("0.0.0.0:8443", "0.0.0.0", False),
        ("[::]:8443", "::", False),
        ("example.org:8443", "example.org", False),
    ],
)
def test_beyond_this_machine_a_server_needs_tls_or_says_plaintext(
    listen: str, host: str, local: bool
) -> None:
    server = ServerConfig(listen=listen, plaintext=True)
    assert (server.host, server.is_local) == (host, local)
    if local:
        assert ServerConfig(listen=listen).listen == listen
    else:
        with pytest.raises(ValueError, match="reachable from other machines"):
            ServerConfig(listen=listen)


def test_a_mistake_in_a_list_of_methods_is_named_by_its_place(tmp_path: Path) -> None:
    text = """\
algorithm:
  kind: latecomer
  controllers:
    - {kind: bandwidth, dayly: 9}
    - {kind: bandwith}
"""
    with pytest.raises(ConfigError) as caught:
        written(tmp_path, text)
    first, second = str(caught.value).splitlines()
    assert ":4: algorithm.controllers.0.dayly: unknown key; did you mean" in first
    assert ":5: algorithm.controllers.1: unknown controller 'bandwith'" in second
