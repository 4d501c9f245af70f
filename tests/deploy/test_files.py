"""What is deployed fits the package; ``make containers`` builds and runs it all."""

import fnmatch
import os
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterable
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from fedclient.cli import main as fedclient
from fedrun.config import load_config
from fedserver.cli import main as fedserver

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
IMAGES = ("server", "client")
COMMANDS = {"server": fedserver, "client": fedclient}


def dockerfile(image: str) -> str:
    return (DEPLOY / f"{image}.Dockerfile").read_text()


def instructions(image: str, word: str) -> list[str]:
    joined = dockerfile(image).replace("\\\n", " ")
    lines = [line.split(maxsplit=1) for line in joined.splitlines() if line.strip()]
    return [line[1] for line in lines if line[0] == word]


def compose() -> dict[str, Any]:
    told: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return told


def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = compose()["services"]
    return found


def words(command: str | list[str]) -> list[str]:
    return shlex.split(command) if isinstance(command, str) else command


def checked(group: click.Command, given: list[str]) -> None:
    """Has click parse a command line; the command does not run."""
    assert isinstance(group, click.Group)
    name, command, rest = group.resolve_command(click.Context(group), list(given))
    assert command is not None
    command.make_context(name, rest)


def project() -> dict[str, Any]:
    told: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return told


# --------------------------------------------------------------------- Dockerfiles


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_has_a_python_that_the_package_supports(image: str) -> None:
    [base] = [base for base in instructions(image, "ARG") if base.startswith("BASE")]
    found = re.search(r"python:3\.(\d+)", base)
    needed = re.fullmatch(r">=3\.(\d+)", project()["project"]["requires-python"])
    assert found is not None
    assert needed is not None
    assert int(found[1]) >= int(needed[1])


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_starts_a_command_of_the_package(image: str) -> None:
    [entry] = instructions(image, "ENTRYPOINT")
    (script,) = yaml.safe_load(entry)
    module, _, attribute = project()["project"]["scripts"][script].partition(":")
    assert (module, attribute) == (f"fed{image}.__main__", "main")


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_is_not_root_and_has_only_data_to_write_to(image: str) -> None:
    *_, user = instructions(image, "USER")
    assert user == "10001:10001"
    assert instructions(image, "VOLUME") == ["/data"]
    assert "install -d -o 10001 -g 10001 /data" in dockerfile(image)


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_tells_its_licence_and_its_revision(image: str) -> None:
    [label] = instructions(image, "LABEL")
    assert f'licenses="{project()["project"]["license"]}"' in label
    assert 'version="${VERSION}"' in label
    assert 'revision="${REVISION}"' in label


def test_the_server_image_cannot_get_torch() -> None:
    plain = [need.split(">")[0] for need in project()["project"]["dependencies"]]
    assert "torch" not in plain
    assert "EXTRAS" not in dockerfile("server")
    assert "EXTRAS" in dockerfile("client")


def needed(names: Iterable[str]) -> set[str]:
    """Packages, and what they need themselves."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in found:
            continue
        found.add(name)
        lines = [line for line in requires(name) or [] if "extra ==" not in line]
        waiting += [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in lines]
    return found


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_drops_what_only_plots_need(image: str) -> None:
    names = [re.split(r"[>=<]", d)[0] for d in project()["project"]["dependencies"]]
    kept = needed(name for name in names if name != "plotly")
    (run,) = [r for r in instructions(image, "RUN") if "uninstall" in r]
    dropped = re.findall(r"uninstall\s+-y\s+([\w ]+?)\s*(?:&&|$)", run)[0].split()
    assert dropped == ["plotly", "narwhals"]
    assert not kept & set(dropped)
    assert set(dropped) <= needed(["plotly"])


def test_the_server_image_runs_and_checks_what_it_exposes() -> None:
    [health] = instructions("server", "HEALTHCHECK")
    _, *probe = yaml.safe_load(health[health.index("CMD") :].removeprefix("CMD"))
    [run] = instructions("server", "CMD")
    checked(fedserver, probe)
    checked(fedserver, yaml.safe_load(run))
    assert instructions("server", "EXPOSE") == [probe[-1].rpartition(":")[2]]


# ---------------------------------------------------------------- what is copied in


def ignored(path: str) -> bool:
    """Whether .dockerignore leaves a path out; the last rule that matches counts."""
    found = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        rule = line.strip()
        if not rule or rule.startswith("#"):
            continue
        pattern = rule.removeprefix("!").rstrip("/").removeprefix("**/")
        parts = path.split("/")
        names = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        names += parts if "**/" in rule else []
        if any(fnmatch.fnmatchcase(name, pattern) for name in names):
            found = not rule.startswith("!")
    return found


def test_the_build_is_given_all_that_the_package_is_made_of() -> None:
    told = project()
    build = told["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = ["pyproject.toml", "constraints.txt", told["project"]["readme"]]
    needed += [*told["project"]["license-files"], "hatch_build.py"]
    needed += [f"{package}/__init__.py" for package in build["packages"]]
    needed += build["force-include"]
    assert [path for path in needed if ignored(path)] == []
    assert [path for path in needed if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(
    "path",
    [
        ".venv/bin/python",
        ".venv-docs/pyvenv.cfg",
        ".git/config",
        ".cache/containers/base.tar",
        "runs/demo/run/journal.sqlite3",
        "tests/served.py",
        "tests/fedserver/conftest.py",
        "fedcore/__pycache__/rng.cpython-311.pyc",
        "protos/fedwire/v1/__pycache__/x.pyc",
        "server.key",
        "fedcore/kernels/_compiled.abi3.so",
        "fedtorch/compiled/_compiled.abi3.so",
    ],
)
def test_the_build_is_not_given_environments_history_runs_and_keys(path: str) -> None:
    assert ignored(path)


# ------------------------------------------------------------------ compose and YAML


def test_the_federation_is_read_by_our_own_loader() -> None:
    config = load_config(DEPLOY / "federation.yaml")
    assert config.app is None, "the server has no user code"
    *_, port = config.server.listen.rpartition(":")
    assert instructions("server", "EXPOSE") == [port]
    volumes = {v.split(":")[1] for v in services()["server"]["volumes"]}
    assert str(config.model.parent) in volumes
    assert str(config.server.journal.parent) in volumes
    [run] = instructions("server", "CMD")
    assert yaml.safe_load(run)[-1] in volumes


def test_the_server_has_more_time_to_stop_than_it_drains() -> None:
    config = load_config(DEPLOY / "federation.yaml")
    grace = services()["server"]["stop_grace_period"]
    assert float(grace.removesuffix("s")) > config.timeouts.drain


def test_every_service_is_confined_and_limited() -> None:
    for name, service in services().items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["mem_limit"], name


def test_every_service_says_a_command_that_exists() -> None:
    for service in services().values():
        image = service["image"].removeprefix("latecomer-")
        if "command" in service:
            checked(COMMANDS[image], words(service["command"]))
        if "healthcheck" in service:
            _, program, *probe = service["healthcheck"]["test"]
            assert program == "fedserver"
            checked(fedserver, probe)


def test_every_volume_is_there() -> None:
    mounted = [volume for s in services().values() for volume in s["volumes"]]
    for volume in mounted:
        source, *_ = volume.split(":")
        if source.startswith("."):
            assert (DEPLOY / source).exists(), volume
        else:
            assert source in compose()["volumes"], volume
    own = [v for v in mounted if v.endswith(":/data")]
    assert len(own) == len(set(own)), "two processes with one state"


def test_every_app_is_there() -> None:
    apps = [v.split(":")[0] for s in services().values() for v in s["volumes"]]
    for source in {app for app in apps if app.startswith("..")}:
        assert (DEPLOY / source / "my_app.py").is_file(), source


def test_clients_have_parts_of_their_own() -> None:
    clients = [words(s["command"]) for n, s in services().items() if "client-" in n]
    indices = [c[c.index("--index") + 1] for c in clients]
    assert indices == [str(index) for index in range(len(clients))]
    assert {c[c.index("--count") + 1] for c in clients} == {str(len(clients))}


# ------------------------------------------------------------------- the test script


def test_the_script_is_a_script() -> None:
    script = DEPLOY / "test.sh"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", script], check=True)


def test_the_readme_speaks_of_every_file() -> None:
    text = (DEPLOY / "README.md").read_text()
    for path in DEPLOY.iterdir():
        if path.name != "README.md":
            assert path.name in text, path.name
