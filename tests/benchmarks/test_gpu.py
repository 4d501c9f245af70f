"""The script for GPUs runs on a CPU too, and saves each part."""

import json
from pathlib import Path

import pytest

from benchmarks import gpu
from benchmarks.basis import RESTS_ON


@pytest.mark.processes
def test_all_parts_are_measured_and_saved(tmp_path: Path) -> None:
    out = tmp_path / "gpu.json"
    words = ["--quick", "--device", "cpu", "--out", str(out)]
    assert gpu.main(words) == 0
    told = json.loads(out.read_text())["CPU"]
    assert told["equality"]["largest difference"] == 0
    assert told["equality"]["largest weight"] > 0
    assert RESTS_ON in told
    assert len(told["parts"]) == 4
    for title, rows in told["parts"].items():
        assert rows[gpu.OURS]["updates/s"] > 0, title
    assert told["parts"]["CIFAR10"][gpu.LOOP]["updates/s"] > 0
    assert told["parts"]["CIFAR10"][gpu.VMAP]["updates/s"] > 0


def test_what_was_saved_of_another_card_stays(tmp_path: Path) -> None:
    out = tmp_path / "gpu.json"
    gpu._save(out, "one", {"value": 1})
    gpu._save(out, "another", {"value": 2})
    gpu._save(out, "another", {"value": 3})
    values = {card: run["value"] for card, run in json.loads(out.read_text()).items()}
    assert values == {"one": 1, "another": 3}


def test_nothing_begins_when_the_time_is_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "gpu.json"
    words = ["--quick", "--device", "cpu", "--minutes", "0", "--out", str(out)]
    assert gpu.main(words) == 1
    told = json.loads(out.read_text())["CPU"]
    assert told["equality"] == {"error": "no time was left"}
    assert told["parts"] == {}


def test_pfls_network_has_the_size_of_its_benchmark() -> None:
    problem = gpu.images(gpu.QUICK, cohort=2)
    assert sum(array.size for array in problem.initial) == 1_626_442


def test_a_device_that_is_not_here_is_one_error() -> None:
    with pytest.raises(SystemExit, match="cuda"):
        gpu.main(["--quick", "--device", "cuda:77"])
