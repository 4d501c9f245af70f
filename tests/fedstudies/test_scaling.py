"""``fedsim scale``: what is predicted, told and refused."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import latecomer
from fedcore.errors import ConfigError
from fedcore.planning.batch_limit import batch_limit
from fedstudies.scaling.measure import measure_device
from fedstudies.scaling.report import interval
from fedstudies.scaling.study import link_of
from tests.fedsim.toys import write
from tests.integration.typed import Ended, desk, typed

pytest.importorskip("torch")

TORCH = """
from tests.fedsim.toys import linear
workload = linear()
"""
OTHER = """
from torch import nn
workload = linear(
    model=lambda: nn.Sequential(nn.Linear(6, 2), nn.Linear(2, 1), nn.Flatten(0))
)
"""
DEVICE = "peak_gflops: 10\nmemory_gb_per_second: 5\n"
USER = 78  # the exit code of wrong settings


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with desk(tmp_path, monkeypatch) as here:
        write(TORCH)
        Path("device.yaml").write_text(DEVICE)
        yield here


def scale(*words: str, config: str = "fed.yaml") -> Ended:
    return typed("fedsim", "scale", config, "--device", "device.yaml", *words)


def numbers(done: Ended) -> dict[str, object]:
    assert (done.status, done.errors) == (0, [])
    found: dict[str, object] = json.loads(done.out)
    return found


def test_layers_exchanges_scaling_and_the_limit_are_told_and_written() -> None:
    done = scale("--workers", "4,2", "-o", "out")
    assert (done.status, done.errors) == (0, [])
    *_, fastest, limit = done.out.splitlines()
    assert "with 95 % confidence) a version" in limit
    assert " the fastest of those asked for, " in fastest
    saved = json.loads(Path("out", "scale.json").read_text())
    assert saved["workers"] == [1, 2, 4]
    assert [row["kind"] for row in saved["layers"]] == ["linear", "loss", "sgd"]
    shares = [row["share"] for row in saved["layers"]]
    assert sum(shares) == pytest.approx(1)
    linear = saved["layers"][0]
    seconds = linear["flops_forward"] + linear["flops_backward"]
    nbytes = linear["bytes_read"] + linear["bytes_written"]
    assert linear["seconds"] == pytest.approx(seconds / 10e9 + nbytes / 5e9)
    star = saved["scaling"]["star"]["sum"]
    assert star["speedups"][0] == 1
    sent = saved["communication"]["star"]
    own = 2 * saved["step_seconds"]  # steps of a task
    for place, n in enumerate([1, 2, 4]):
        assert star["weak_seconds"][place] == pytest.approx(own + sent[place])
        assert star["strong_seconds"][place] == pytest.approx(4 / n * own + sent[place])
    page = Path("out", "scale.html").read_text()
    assert page.count('<figure class="plot"') == 3


def test_programs_are_told_in_json_alone() -> None:
    found = numbers(scale("--json"))
    assert found["app"] == "mine.py:workload"
    assert list(Path().glob("*-scale-*")) == []


def test_a_sparse_uplink_makes_the_star_faster() -> None:
    whole = numbers(scale("--json"))
    codec = "algorithm.uplink={kind: top_k, ratio: 0.2}"
    sparse = numbers(scale("--json", "--set", codec))
    assert sparse["exchange"]["up"] < whole["exchange"]["up"]  # type: ignore[index]


def test_an_app_without_torch_is_told_the_rest() -> None:
    write()
    found = numbers(scale("--json"))
    assert "no torch module" in found["sentences"][0]  # type: ignore[index]
    assert found["layers"] == []
    assert found["scaling"]["star"]["sum"] is None  # type: ignore[index]
    assert found["communication"]["star"]  # type: ignore[index]
    assert found["limits"]["initial"]["clients"]["count"] == 4  # type: ignore[index]
    assert scale("-o", "out").status == 0
    assert Path("out", "scale.html").read_text().count('<figure class="plot"') == 0


def test_an_own_loop_has_no_gradients_and_so_no_limit() -> None:
    write(
        """
from latecomer import Trained
from tests.fedsim.toys import toy

def train(params, data, task):
    return Trained(params, samples=len(data[0]), loss=1.0)

workload = toy(gradient=None, train=train)
"""
    )
    found = numbers(scale("--json"))
    assert "trains by a loop of its own" in str(found["verdict"])
    assert found["limits"]["initial"]["clients"] is None  # type: ignore[index]


def test_one_client_says_nothing_of_a_second_one() -> None:
    changes = ("--set", "simulate.clients=1", "--set", "algorithm.buffer=1")
    found = numbers(scale("--json", *changes))
    assert "there is one client" in str(found["verdict"])


def test_equal_clients_are_flagged() -> None:
    write(
        """
from tests.fedsim.toys import linear, points
workload = linear(train_data=lambda client: points(1))
"""
    )
    found = numbers(scale("--json"))
    assert found["limits"]["initial"]["clients"]["beyond"] == pytest.approx(1)  # type: ignore[index]
    said = "beyond 1 client (their gradients are equal) a version"
    assert str(found["verdict"]).startswith(said)
    assert str(found["verdict"]).endswith("averages 2, which is above the limit")


def test_runs_of_various_sizes_are_the_measured_scaling() -> None:
    runs = []
    for clients in (2, 4):
        given = ("--set", f"simulate.clients={clients}", "-o", f"run-{clients}")
        assert typed("fedsim", "run", "fed.yaml", *given).status == 0
        runs += ["--run", f"run-{clients}"]
    found = numbers(scale("--json", *runs))
    assert found["measured"]["workers"] == [2, 4]  # type: ignore[index]
    alike = numbers(scale("--json", *runs[:2], *runs[:2]))
    assert alike["measured"] is None
    assert "have the same number of clients" in " ".join(alike["sentences"])  # type: ignore[arg-type]
    assert list(found["limits"]) == ["initial", "run-4"]  # type: ignore[call-overload]
    assert scale(*runs, "-o", "out").status == 0
    assert "Measured scaling" in Path("out", "scale.html").read_text()


def test_a_run_of_another_app_is_refused() -> None:
    assert typed("fedsim", "run", "fed.yaml", "-o", "run").status == 0
    Path("other.py").write_text(Path("mine.py").read_text() + OTHER)
    sentence = scale("--run", "run", "--app", "other.py:workload").sentence(USER)
    assert "its model is not that of other.py:workload" in sentence


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--workers", "2,a"),
            "--workers 2,a: expected whole numbers from 1 to",
        ),
        (("--workers", "0"), "--workers 0: expected whole numbers from 1 to 999,999"),
        (("--link", "0"), "--link 0: expected Mbit/s above 0"),
        (("--link", "up=0"), "--link up=0: expected Mbit/s above 0"),
        (("--link", "sideways=3"), "--link sideways=3: expected Mbit/s above 0"),
        (("--measure",), "give --device or --measure, not both"),
        (("--out", "fed.yaml"), "is a file, not a folder"),
    ],
)
def test_what_is_given_wrongly_is_answered_in_a_sentence(
    words: tuple[str, ...], message: str
) -> None:
    assert message in scale(*words).sentence(USER)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (DEVICE + "pp: 0.5\n", "unknown key; did you mean 'ppp'?"),
        (DEVICE.replace("5", "0"), "memory_gb_per_second: should be greater than 0"),
        ("peak_gflops: 10\n", "memory_gb_per_second: is missing"),
        ("[1, 2]\n", "expected keys and values such as peak_gflops: 50, found list"),
        ("a: b: c\n", "not YAML"),
    ],
)
def test_a_wrong_device_file_is_answered_in_a_sentence(text: str, message: str) -> None:
    Path("device.yaml").write_text(text)
    assert message in scale().sentence(USER)


def test_a_device_file_that_is_not_there_is_named() -> None:
    Path("device.yaml").unlink()
    assert "--device device.yaml: there is no such file" in scale().sentence(USER)


def test_a_model_that_does_not_fit_its_data_names_the_layer() -> None:
    write(
        """
from torch import nn
from tests.fedsim.toys import linear
workload = linear(model=lambda: nn.Sequential(nn.Linear(7, 1), nn.Flatten(0)))
"""
    )
    done = scale()
    assert done.status != 0
    assert len(done.errors) == 1
    assert "layer '0' (Linear) raised RuntimeError on a batch" in done.errors[0]


def test_an_app_without_data_is_answered_in_a_sentence() -> None:
    write(
        """
from tests.fedsim.toys import linear, points
workload = linear(train_data=lambda client: points(1, 0))
"""
    )
    done = scale()
    assert done.status != 0
    assert done.errors == ["train_data of client-0 returned no samples"]


def test_python_makes_the_same_report() -> None:
    report = latecomer.scale(
        "fed.yaml", workers=[2, 4], device="device.yaml", link="100", out="out"
    )
    assert report.workers == [1, 2, 4]
    assert report.link.up == 12.5e6
    assert report.scaling() is not None
    assert Path("out", "scale.html").is_file()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"workers": "1,2"}, "workers: expected a list"),
        ({"workers": [1.5]}, "workers: expected a list of whole numbers from 1"),
        ({"runs": "run"}, "runs: expected a list"),
    ],
)
def test_python_refuses_wrong_arguments(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        latecomer.scale("fed.yaml", device="device.yaml", **given)  # type: ignore[arg-type]


def test_workers_are_sorted_and_begin_with_one() -> None:
    found = latecomer.scale("fed.yaml", workers=[8, 2, 2], device="device.yaml")
    assert found.workers == [1, 2, 8]


def test_what_a_link_does_not_say_is_that_of_the_config() -> None:
    from fedrun.config import FederationConfig

    found = link_of("down=80", FederationConfig())
    assert (found.up, found.down, found.server) == (1.25e6, 10e6, 125e6)
    assert found.latency == 0.05


def test_this_machine_can_be_measured() -> None:
    found = measure_device()
    assert found.peak_gflops > 0
    assert found.memory_gb_per_second > 0
    assert found.call_microseconds > 0


def test_a_limit_has_an_interval_that_few_gradients_widen() -> None:
    rng = np.random.default_rng(0)
    g_ND = rng.normal(0.3, 1.0, (64, 50))
    many, few = batch_limit(g_ND), batch_limit(g_ND[:5])
    low, high = interval(many)
    assert 1 < low < many.beyond < high < math.inf
    least, most = interval(few)
    assert least < low
    assert most > high
    assert interval(batch_limit(g_ND[:2])) == (1.0, math.inf)
    assert interval(batch_limit([g_ND[0]] * 4)) == (1.0, 1.0)
