"""Alerts and dashboard speak of metrics that are there, and a real Prometheus of us."""

import json
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedserver.cli import main as fedserver
from fedserver.view.web.metrics import METRICS
from tests.deploy.test_chart import TOOLS
from tests.deploy.test_files import checked
from tests.peer import Peer, packed
from tests.served import ones, served, until

ROOT = Path(__file__).parents[2]
BY_NAME = {metric.name: metric for metric in METRICS}
MONITORING = ROOT / "deploy/monitoring"
DASHBOARD = MONITORING / "grafana/dashboards/latecomer.json"
OTHERS = {"up", "process_resident_memory_bytes", "process_cpu_seconds_total"}


def load(name: str) -> Any:
    return yaml.safe_load((MONITORING / name).read_text())


def rules() -> list[dict[str, Any]]:
    return [rule for group in load("alerts.yaml")["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    told: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return told


def panels() -> list[dict[str, Any]]:
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def queries() -> list[str]:
    """All queries of the dashboard, as Grafana sends them."""
    found = [target["expr"] for panel in panels() for target in panel["targets"]]
    found += [each["expr"] for each in dashboard()["annotations"]["list"]]
    return [text.replace("$__rate_interval", "1m") for text in found]


def metrics_of(query: str) -> set[str]:
    """The names of metrics in a query: words that begin like ours, or others' words."""
    words = set(re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]*", query))
    return {w for w in words if w.startswith("fed_")} | (words & OTHERS)


def known(name: str) -> bool:
    if name in OTHERS or name in BY_NAME:
        return True
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    return base in BY_NAME and BY_NAME[base].kind == "histogram"


# ------------------------------------------------------------------------ the metrics


def test_alerts_and_dashboard_name_metrics_that_the_server_has() -> None:
    asked = [rule["expr"] for rule in rules()] + queries()
    for query in asked:
        names = metrics_of(query)
        assert names, query
        assert [name for name in names if not known(name)] == [], query
    assert not known("fed_no_such_metric")
    assert not known("fed_version_bucket"), "no histogram"


def test_labels_are_those_that_the_metrics_have() -> None:
    for query in [rule["expr"] for rule in rules()] + queries():
        for name, inside in re.findall(r"(fed_\w+)\{([^}]*)\}", query):
            base = re.sub(r"_bucket$", "", name)
            labels = set(re.findall(r"(\w+)\s*[=!]", inside))
            assert labels <= {*BY_NAME[base].labels, "job", "instance"}, query


def test_the_dashboard_shows_most_of_the_metrics() -> None:
    shown = {name for query in queries() for name in metrics_of(query)}
    shown |= {name for rule in rules() for name in metrics_of(rule["expr"])}
    bare = {re.sub(r"_bucket$", "", name) for name in shown}
    assert set(BY_NAME) - bare <= {
        "fed_run_info",
        "fed_claims_unproved_total",
        "fed_core_waiting_events",
    }


# ------------------------------------------------------------------------ the dashboard


def test_panels_have_numbers_of_their_own_and_do_not_overlap() -> None:
    everything = dashboard()["panels"]
    numbers = [panel["id"] for panel in everything]
    assert len(set(numbers)) == len(numbers)
    taken: set[tuple[int, int]] = set()
    for panel in everything:
        at = panel["gridPos"]
        cells = {
            (at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])
        }
        assert at["x"] + at["w"] <= 24, panel["title"]
        assert not cells & taken, panel["title"]
        taken |= cells


def test_every_query_goes_to_the_data_source_that_is_provisioned() -> None:
    (source,) = load("grafana/provisioning/datasources/prometheus.yaml")["datasources"]
    told = dashboard()
    asked = [*panels(), *told["templating"]["list"], *told["annotations"]["list"]]
    asked += [target for panel in panels() for target in panel["targets"]]
    uids = {each["datasource"]["uid"] for each in asked}
    assert uids == {source["uid"]}
    assert source["url"] == "http://prometheus:9090"


def test_the_types_of_grafana_read_the_dashboard() -> None:
    """Where Grafana itself cannot be had, its own types check what it would load."""
    python = TOOLS / "python"
    if not python.exists():
        pytest.skip("the types of Grafana are not installed: make chart")
    script = (
        "import json, sys\n"
        "from grafana_foundation_sdk.models.dashboard import Dashboard\n"
        "read = Dashboard.from_json(json.load(open(sys.argv[1])))\n"
        "print(read.title, len(read.panels))\n"
    )
    command = [str(python), "-c", script, str(DASHBOARD)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["latecomer", str(len(dashboard()["panels"]))]


# -------------------------------------------------------------------- Prometheus itself


def prometheus(name: str = "promtool") -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: the Debian package prometheus has it")
    return found


def promtool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [prometheus(), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_prometheus_takes_the_config_and_the_alerts() -> None:
    for kind, name in ("config", "prometheus.yaml"), ("rules", "alerts.yaml"):
        done = promtool("check", kind, MONITORING / name)
        assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_can_read_every_query_of_the_dashboard(tmp_path: Path) -> None:
    def written(texts: list[str]) -> Path:
        path = tmp_path / "queries.yaml"
        told = [{"record": f"q{n}", "expr": text} for n, text in enumerate(texts)]
        path.write_text(yaml.safe_dump({"groups": [{"name": "q", "rules": told}]}))
        return path

    plain = [re.sub(r"\$(job|instance)", ".*", text) for text in queries()]
    done = promtool("check", "rules", written(plain))
    assert done.returncode == 0, done.stdout + done.stderr
    assert promtool("check", "rules", written(["sum(fed_version"])).returncode != 0


def test_every_alert_fires_on_what_it_is_for_and_not_on_a_healthy_run() -> None:
    cases = load_cases()
    assert {case["alert"] for case in cases} == {rule["alert"] for rule in rules()}
    done = promtool("test", "rules", Path(__file__).parent / "alerts_test.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def load_cases() -> list[dict[str, str]]:
    told = yaml.safe_load((Path(__file__).parent / "alerts_test.yaml").read_text())
    cases = [case for test in told["tests"] for case in test["alert_rule_test"]]
    return [{"alert": case["alertname"]} for case in cases if case.get("exp_alerts")]


@pytest.mark.needs("uvicorn", "starlette", "prometheus_client")
@pytest.mark.processes
def test_a_real_prometheus_scrapes_a_real_server(tmp_path: Path) -> None:
    binary = prometheus("prometheus")
    web = {"web": "127.0.0.1:0"}
    with served(tmp_path, server=web) as server, Peer(server.address, "client") as peer:
        peer.pull()
        for _ in range(3):
            peer.push(packed(ones()))
        assert server.server.web is not None
        config = load("prometheus.yaml")
        (job,) = config["scrape_configs"]
        job["static_configs"] = [{"targets": [server.server.web.address]}]
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        shutil.copy(MONITORING / "alerts.yaml", tmp_path)
        (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(config))
        with running(binary, tmp_path) as address:
            until(lambda: ask(address, "up") == {"": 1.0}, "it scrapes", 90)
            assert ask(address, "fed_version") == {"": 3.0}
            verdicts = ask(address, 'fed_updates_total{verdict="accepted"}')
            assert verdicts == {"accepted": 3.0}
            assert ask(address, "fed_ready") == {"": 1.0}
            for query in queries():
                ask(address, re.sub(r"\$(job|instance)", ".*", query))
            found = get(address, "/api/v1/rules")["groups"][0]["rules"]
            assert len(found) == len(rules())
            assert {rule["health"] for rule in found} <= {"ok", "unknown"}


def get(address: str, path: str) -> Any:
    with urllib.request.urlopen(f"http://{address}{path}", timeout=20) as answer:
        told = json.load(answer)
    assert told["status"] == "success", told
    return told["data"]


def ask(address: str, query: str) -> dict[str, float]:
    """What Prometheus answers, by the label that is its own of each sample."""
    asked = urllib.parse.urlencode({"query": query})
    try:
        found = get(address, f"/api/v1/query?{asked}")["result"]
    except urllib.error.URLError:
        return {}
    own = ("verdict", "state", "le", "name")
    return {
        next((each["metric"][n] for n in own if n in each["metric"]), ""): float(
            each["value"][1]
        )
        for each in found
    }


@contextmanager
def running(binary: str, folder: Path) -> Iterator[str]:
    """A Prometheus with the config in a folder; its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [
        binary,
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'series'}",
        f"--web.listen-address={address}",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield address
    finally:
        process.terminate()
        process.wait(20)


# ---------------------------------------------------------------------------- compose


def compose() -> dict[str, Any]:
    told: dict[str, Any] = yaml.safe_load(
        (MONITORING.parent / "compose.monitoring.yaml").read_text()
    )
    return told


def test_the_compose_file_mounts_what_is_there_and_opens_the_port_that_is_scraped() -> (
    None
):
    services = compose()["services"]
    program, config, *options = services["server"]["command"].split()
    checked(fedserver, [program, config, *options])
    (web,) = [option for option in options if option.startswith("server.web=")]
    (job,) = load("prometheus.yaml")["scrape_configs"]
    (target,) = job["static_configs"][0]["targets"]
    assert target == f"server:{web.rpartition(':')[2]}"
    for service in ("prometheus", "grafana"):
        told = services[service]
        assert told["read_only"], service
        assert told["cap_drop"] == ["ALL"], service
        assert told["mem_limit"], service
        assert all(port.startswith("127.0.0.1:") for port in told["ports"]), service
        for volume in told["volumes"]:
            source, *_ = volume.split(":")
            if source.startswith("."):
                assert (MONITORING.parent / source).exists(), volume
            else:
                assert source in compose()["volumes"], volume
    (provider,) = load("grafana/provisioning/dashboards/latecomer.yaml")["providers"]
    mounted = [volume.split(":")[1] for volume in services["grafana"]["volumes"]]
    assert provider["options"]["path"] in mounted
