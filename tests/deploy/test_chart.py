"""The Helm chart renders what Kubernetes takes, and refuses what is misspelt.

``make chart`` installs helm and the schemas of Kubernetes into a folder of its own.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedclient.cli import main as fedclient
from fedrun.config import load_config
from fedserver.cli import main as fedserver
from tests.deploy.test_files import checked

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/chart"
TOOLS = ROOT / ".venv-deploy/bin"
KUBERNETES = ("1.25", "1.34")  # the oldest that the chart names, and a new one
PLAIN = ("plaintext=true",)
ALL = (
    "tls.secretName=fed-tls",
    "clients.replicas=3",
    "clients.image=my-client:1",
    "clients.caSecretName=fed-ca",
    "clients.extraArgs={--data,disk=a}",
    "model.init.enabled=true",
    "model.init.image=my-client:1",
    "persistence.storageClass=fast",
    "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.name=monitoring",
)

CERTIFIED = ("tls.secretName=fed-tls", "tls.clientCertificates=true")
SETS = pytest.mark.parametrize(
    "values", [PLAIN, ALL, CERTIFIED], ids=["plain", "all", "certified"]
)


def tool(name: str) -> str:
    found = shutil.which(name, path=str(TOOLS)) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: make chart")
    return found


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    command = [tool("helm"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def rendered(*values: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The objects of the chart, by kind and name."""
    sets = [word for value in values for word in ("--set", value)]
    done = helm("template", "fed", str(CHART), *sets)
    assert done.returncode == 0, done.stderr
    objects = [each for each in yaml.safe_load_all(done.stdout) if each]
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def pods(objects: dict[tuple[str, str], dict[str, Any]]) -> list[dict[str, Any]]:
    sets = [each for (kind, _), each in objects.items() if kind == "StatefulSet"]
    return [each["spec"]["template"]["spec"] for each in sets]


def server_pod(objects: dict[tuple[str, str], dict[str, Any]]) -> dict[str, Any]:
    spec = objects["StatefulSet", "fed"]["spec"]
    return dict(spec["template"]["spec"])


def test_helm_finds_nothing_wrong() -> None:
    done = helm("lint", "--strict", str(CHART), "--set", *PLAIN)
    assert done.returncode == 0, done.stdout


@SETS
@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_takes_what_is_rendered(
    tmp_path: Path, values: tuple[str, ...], version: str
) -> None:
    path = tmp_path / "rendered.yaml"
    path.write_text(yaml.safe_dump_all(rendered(*values).values()))
    command = [tool("kubernetes-validate"), "--strict", "-k", version, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    text = path.read_text().replace("startupProbe", "startUpProbe")
    path.write_text(text)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0, "a misspelt probe passes"


def test_there_is_one_server_with_one_volume_and_nothing_more() -> None:
    objects = rendered(*PLAIN)
    assert {kind for kind, _ in objects} == {
        *("ServiceAccount", "ConfigMap", "Service", "StatefulSet"),
        *("PodDisruptionBudget", "NetworkPolicy"),
    }
    spec = objects["StatefulSet", "fed"]["spec"]
    assert spec["replicas"] == 1
    assert [claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]] == [
        "data"
    ]
    assert spec["serviceName"] == "fed-web"
    (container,) = spec["template"]["spec"]["containers"]
    assert {probe["path"] for probe in probes(container)} == {"/healthz", "/readyz"}
    checked(fedserver, container["args"])


def probes(container: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        container[f"{p}Probe"]["httpGet"] for p in ("startup", "liveness", "readiness")
    ]


@SETS
def test_the_config_is_one_that_the_server_takes(
    tmp_path: Path, values: tuple[str, ...]
) -> None:
    text = rendered(*values)["ConfigMap", "fed"]["data"]["federation.yaml"]
    path = tmp_path / "federation.yaml"
    path.write_text(text)
    config = load_config(path)
    pod = server_pod(rendered(*values))
    grace = pod["terminationGracePeriodSeconds"]
    assert grace > config.timeouts.drain
    ports = {each["name"]: each["containerPort"] for each in server_of(pod)["ports"]}
    assert config.server.listen == f"0.0.0.0:{ports['grpc']}"
    assert config.server.web == f"0.0.0.0:{ports['web']}"
    assert (config.server.tls is None) == (values is PLAIN)
    asks = config.server.tls is not None and config.server.tls.client_ca is not None
    assert asks == (values is CERTIFIED)


def test_version_0_is_made_with_the_seed_of_the_run() -> None:
    for values, seed in ((ALL, "0"), ((*ALL, "federation.seed=70000000"), "70000000")):
        (init,) = server_pod(rendered(*values))["initContainers"]
        script, app, path, given = init["args"]
        assert given == seed
        assert '"--seed", seed' in script
        checked(fedclient, ["model", "--app", app, "-o", path, "--seed", given])


def server_of(pod: dict[str, Any]) -> dict[str, Any]:
    (server,) = [each for each in pod["containers"] if each["name"] == "server"]
    return dict(server)


def test_every_container_is_confined_and_limited() -> None:
    found = pods(rendered(*ALL))
    assert len(found) == 2
    for pod in found:
        assert pod["automountServiceAccountToken"] is False
        security = pod["securityContext"]
        assert (security["runAsUser"], security["runAsNonRoot"]) == (10001, True)
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"] is True
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"]["memory"]
            mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
            assert {"/data", "/tmp"} <= mounts


def test_secrets_are_named_and_never_held() -> None:
    objects = rendered(*ALL)
    assert "Secret" not in {kind for kind, _ in objects}
    pod = server_pod(objects)
    (tls,) = [each for each in pod["volumes"] if each["name"] == "tls"]
    assert tls["secret"]["secretName"] == "fed-tls"


def test_clients_say_a_command_that_exists() -> None:
    spec = rendered(*ALL)["StatefulSet", "fed-client"]["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    _, *words = container["args"]
    assert words[0] == "fed:8443"
    assert words[words.index("--count") + 1] == str(spec["replicas"])
    checked(fedclient, ["join", *words, "--name", "fed-client-0", "--index", "0"])


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("tls.secretName=", "no TLS: give tls.secretName, or say plaintext: true"),
        ("plaintxt=true", "'plaintxt' not allowed"),
        ("persistence.sise=1Gi", "'sise' not allowed"),
        ("service.port=http", "want integer"),
        ("service.type=Internal", "value must be one of"),
        ("model.path=/tmp/model", "does not match pattern"),
        ("federation.server.listen=x", "federation.server.listen is set by the chart"),
        ("federation.app=my_app:workload", "the server has no user code"),
        ("web.port=8443", "8443 is the port of gRPC"),
        ("tls.clientCertificates=true", "there is no TLS; give tls.secretName"),
        ("federation.timeouts.drain=30", "so it must be more"),
        (f"{CERTIFIED[0]},{CERTIFIED[1]},clients.replicas=2", "own clients have none"),
        ("clients.replicas=2", "clients.image: a client's image with the app"),
    ],
)
def test_a_mistake_in_the_values_is_refused(value: str, sentence: str) -> None:
    plain = [] if value == "tls.secretName=" else ["--set", *PLAIN]
    done = helm("template", "fed", str(CHART), *plain, "--set", value)
    assert done.returncode != 0
    assert sentence in done.stderr
