"""How many copies of a large model a version and a task take."""

import errno
import os
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fedrun.spill as spill_module
from fedcore import payloads
from fedcore.compressors import DeadZone, ErrorFeedback
from fedcore.coordinator.state import ServerState
from fedcore.params import ParamSpec
from fedcore.participant import encode
from fedcore.recipes import FedAvg, Latecomer
from fedcore.rng import Key
from fedrun.spill import Spill

DIM = 5_000_000  # 20 MB, which is handled in parts
KEY = Key.root(0)
has_proc = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="reads a process's memory there"
)


@pytest.fixture
def model_D() -> Any:
    """Makes values of a large model; counts what NumPy allocates from then on."""
    values_D = np.random.default_rng(0).standard_normal(DIM, dtype=np.float32)
    tracemalloc.start()
    yield values_D
    tracemalloc.stop()


def peak() -> float:
    """The most memory since the start, in models."""
    return tracemalloc.get_traced_memory()[1] / (4 * DIM)


def test_a_version_of_plain_averaging_needs_no_copy(model_D: Any) -> None:
    spec = ParamSpec.of({"w": model_D})
    state = ServerState(FedAvg().build(spec), model_D, "epoch")
    state.buffer += model_D
    state.count, state.samples = 2, 2.0
    state.step(lambda gap: None)
    assert peak() < 2.3  # the sum, which becomes the model, and the next sum


@pytest.fixture
def spill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spill:
    """Files for everything but the smallest vectors; NumPy allocates nothing there."""
    monkeypatch.setattr(spill_module, "LARGE", 64)
    return Spill(tmp_path)


def test_a_version_of_the_default_recipe_needs_less_than_three_models(
    model_D: Any, spill: Spill
) -> None:
    algorithm = Latecomer().build(ParamSpec.of({"w": model_D}))
    state = ServerState(algorithm, model_D, "epoch")
    state.set_aside(spill.move)

    def message(gap: Any) -> Any:
        payload, _ = algorithm.downlink.encode(gap(), None, KEY)
        return payloads.pack(payload), payload

    for _ in range(3):
        state.buffer += model_D
        state.count, state.samples = 2, 2.0
        state.step(message)
    untouched = 1  # the next sum, which takes no memory before an update
    assert peak() - untouched < 2.8  # W, W - X, and the largest of it


def test_a_message_beside_an_error_memory_needs_one_model_more(model_D: Any) -> None:
    uplink = ErrorFeedback(inner=DeadZone(ratio=0.05)).build((DIM,))
    encode(uplink, model_D, model_D, KEY)
    assert peak() < 2


TRAINING = """
import sys
from pathlib import Path
import numpy as np
from torch import nn
from fedcore.recipes import FedAvg
from fedcore.rng import Key
from fedcore.training import Trainer
from fedrun.spill import Spill
from latecomer import TorchWorkload

def peak():
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])

def train(width, layers):
    x, y = np.ones((8, width), np.float32), np.arange(8) % 2
    workload = TorchWorkload(
        model=lambda: nn.Sequential(
            *(nn.Linear(width, width) for _ in range(layers)), nn.Linear(width, 2)
        ),
        loss=nn.CrossEntropyLoss(),
        train_data=lambda client: (x, y),
    )
    config = FedAvg.model_validate(
        {"client": {"kind": "local_sgd", "steps": 2, "batch": 2}}
    )
    trainer = Trainer(workload, config.build(workload.flat().spec))
    public_D = Spill(Path(sys.argv[1])).move(trainer.model.initial(Key.root(0)))
    Path("/proc/self/clear_refs").write_text("5")
    trainer.train(public_D, (x, y), Key.root(1))
    return peak(), public_D.nbytes

before, _ = train(16, 1)
after, nbytes = train(1024, 12)
print((after - before) / nbytes)
"""


@has_proc
def test_a_client_trains_in_less_than_three_models(tmp_path: Path) -> None:
    command = [sys.executable, "-c", TRAINING, str(tmp_path)]
    for _ in range(3):  # on a busy machine memory is given back late
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        if float(done.stdout) < 3:
            break
    assert 0.5 < float(done.stdout) < 3  # weights, gradient, a part of what was sent


def test_what_lies_in_a_file_is_the_same_and_stays_as_it_is(tmp_path: Path) -> None:
    spill = Spill(tmp_path)
    large_D = np.arange(9 << 20, dtype=np.float32)
    moved_D = spill.move(large_D)
    assert moved_D is not large_D
    assert (moved_D == large_D).all()
    assert spill.move(moved_D) is moved_D
    assert spill.move(large_D[:9]).base is large_D  # few values stay
    assert not [*tmp_path.iterdir()]  # no file has a name


VECTORS = {
    "flat": np.arange(40.0),
    "one row": np.arange(40.0)[None],
    "rows": np.arange(40).reshape(2, 20),
    "by column": np.asfortranarray(np.arange(40.0).reshape(2, 20)),
    "every other one": np.arange(80.0)[::2],
    "read only": np.broadcast_to(np.float32(1), (40,)),
}


@pytest.mark.parametrize("name", VECTORS)
def test_a_vector_of_any_form_is_the_same_in_a_file(name: str, spill: Spill) -> None:
    given = VECTORS[name]
    moved = spill.move(given)
    assert moved is not given
    assert (moved.shape, moved.dtype) == (given.shape, given.dtype)
    np.testing.assert_array_equal(moved, given)
    moved[...] = 0  # it can be written to


def test_what_is_more_than_numbers_stays_where_it_is(spill: Spill) -> None:
    for given in (
        np.array([None] * 40),
        np.ma.masked_array(np.arange(40.0), [True] * 40),
    ):
        assert spill.move(given) is given


def test_without_room_on_the_disk_nothing_is_copied(
    spill: Spill, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = SimpleNamespace(free=spill_module.SPARED + 159)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: room)
    small_D, large_D = np.arange(39, dtype=np.float32), np.arange(40, dtype=np.float32)
    assert spill.move(small_D) is not small_D
    assert spill.move(large_D) is large_D


def test_memory_that_is_locked_does_not_keep_other_memory_from_leaving(
    spill: Spill,
) -> None:
    class Map:
        def __init__(self, is_locked: bool) -> None:
            self.is_locked, self.left = is_locked, 0

        def madvise(self, what: int) -> None:
            if self.is_locked:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            self.left += 1

    maps = [Map(True), Map(False), Map(True)]
    spill._used = maps  # type: ignore[assignment]
    assert spill._give_back()
    assert maps[1].left == 1
