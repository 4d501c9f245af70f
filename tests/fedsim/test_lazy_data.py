"""Data sets that are read sample by sample: every engine reads what its tasks use."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import latecomer
from fedcore.coordinator.events import Decided, Failed
from fedcore.errors import UserCodeError
from fedcore.labels import counts_list
from fedcore.workload import Client
from fedview.results import Results

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from fedtorch import TorchWorkload  # noqa: E402

ENGINES = pytest.mark.parametrize("engine", ["exact", "stacked"])
COUNT, STEPS, BATCH = 30, 3, 4


class Words:
    """Sentences of different length, whose label is whether they begin with much."""

    def __init__(self, seed: int, broken: int | None = None) -> None:
        self._seed, self._broken = seed, broken
        self.reads: list[int] = []

    def __len__(self) -> int:
        return COUNT + self._seed % 3

    def __getitem__(self, row: int) -> tuple[Any, int]:
        self.reads.append(row)
        if self._broken is not None and row >= self._broken:
            raise OSError(f"sentence-{row}.txt: truncated")
        rng = np.random.default_rng([self._seed, row])
        x = rng.integers(1, 20, 3 + row % 4)
        return torch.from_numpy(x), int(x[0] > 10)


class Points(Words):
    """Points of one shape."""

    def __getitem__(self, row: int) -> tuple[Any, int]:
        self.reads.append(row)
        x = np.random.default_rng([self._seed, row]).random(5, np.float32)
        return x, int(x[0] > 0.5)


class Bag(nn.Module):
    """Looks at the mean of a sentence's words, the padding included."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.last = nn.Embedding(20, 4, padding_idx=0), nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return self.last(self.words(x).mean(1))


def padded(samples: list[Any]) -> tuple[Any, Any]:
    x, y = map(list, zip(*samples, strict=True))
    return nn.utils.rnn.pad_sequence(x, batch_first=True), torch.tensor(y)


def simulated(folder: Path, engine: str, train_data: Any, **given: Any) -> Results:
    """A run of four clients."""
    settings = given.pop("settings", {})
    config = {
        "algorithm": {
            "kind": "fed_buff",
            "buffer": 2,
            "staleness": {"kind": "label_boost"},  # for which labels are counted
            "client": {"kind": "local_sgd", "steps": STEPS, "batch": BATCH, "lr": 0.1},
        },
        "stop": {"versions": 4},
        "simulate": {"clients": 4, "engine": {"kind": engine}},
        **settings,
    }
    known = {"model": Bag, "loss": nn.CrossEntropyLoss()}
    workload = TorchWorkload(train_data=train_data, **{**known, **given})
    return latecomer.run(config, workload, folder=folder)


def kept(make: Callable[[int], Any]) -> tuple[Callable[[Client], Any], dict[int, Any]]:
    """A data function, and the data that it has made by the client's index."""
    made: dict[int, Any] = {}

    def train_data(client: Client) -> Any:
        return made.setdefault(client.index, make(client.index))

    return train_data, made


@ENGINES
def test_a_task_reads_its_own_samples_each_once(tmp_path: Path, engine: str) -> None:
    train_data, made = kept(Points)
    results = simulated(
        tmp_path, engine, train_data, model=lambda: nn.Linear(5, 2), test_data=None
    )
    tasks = len(results.of(Decided)) + 4  # those that are computed and not decided on
    reads = sum(len(data.reads) for data in made.values())
    assert reads <= tasks * STEPS * BATCH + 2  # which tell how to compute them


def test_both_engines_come_to_the_same_with_batches_of_the_users_own(
    tmp_path: Path,
) -> None:
    found = [
        simulated(
            tmp_path / engine,
            engine,
            kept(Words)[0],
            collate=padded,
            test_data=lambda: Words(9),
        )
        for engine in ("exact", "stacked")
    ]
    exact, stacked = ([*each.model("last").values()] for each in found)
    for one, other in zip(exact, stacked, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        found[0].central["loss"], found[1].central["loss"], rtol=1e-5
    )
    counts = [
        [(each.cid, counts_list(each.counts)) for each in run.of(Decided)]
        for run in found
    ]
    assert counts[0] == counts[1]
    assert all(sum(labels or []) == STEPS * BATCH for _, labels in counts[0])


@ENGINES
def test_samples_of_different_length_are_told_in_one_sentence(
    tmp_path: Path, engine: str
) -> None:
    sentence = (
        r"^client-0, client-1, client-2 cannot train: "
        r"samples of the data set Words differ in shape "
        r"\(x \(\d,\), y \(\); x \(\d,\), y \(\)\); give collate=, which makes a batch "
        r"\(x, y\) of a list of samples, such as by padding them$"
    )
    with pytest.raises(UserCodeError, match=sentence) as caught:
        simulated(tmp_path, engine, kept(Words)[0])
    assert caught.value.__cause__ is None  # no traceback says more


@ENGINES
def test_a_sample_that_cannot_be_read_ends_the_tasks_of_its_client_alone(
    tmp_path: Path, engine: str
) -> None:
    results = simulated(
        tmp_path,
        engine,
        kept(lambda index: Words(index, broken=0 if index == 2 else None))[0],
        collate=padded,
        test_data=None,
        settings={"stop": {"versions": 90}},
    )
    assert results.summary["versions"] == 90
    failed = results.of(Failed)
    assert {each.cid for each in failed} == {"client-2"}
    assert ".txt: truncated" in failed[0].error


@ENGINES
def test_what_collate_raises_ends_the_tasks_of_its_client_alone(
    tmp_path: Path, engine: str
) -> None:
    def picky(samples: list[Any]) -> Any:
        if any(len(x) == 9 for x, _ in samples):
            raise ValueError("nine words are too many")
        return padded(samples)

    def train_data(client: Client) -> Any:
        long = torch.ones(9, dtype=torch.int64), 1
        return [long] * 5 if client.index == 1 else Words(client.index)

    results = simulated(
        tmp_path,
        engine,
        train_data,
        collate=picky,
        test_data=None,
        settings={"stop": {"versions": 90}},
    )
    [(name, told)] = results.summary["failed"].items()
    assert name == "client-1"
    assert told == "ValueError: nine words are too many"


class Packed(nn.Module):
    """Takes what only the user's collate makes: a packed sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.cell = nn.Embedding(20, 4), nn.GRU(4, 3)
        self.last = nn.Linear(3, 2)

    def forward(self, x: Any) -> Any:
        _, state = self.cell(x._replace(data=self.words(x.data)))
        return self.last(state[0])


def test_batches_that_are_no_arrays_are_trained_on_one_by_one(tmp_path: Path) -> None:
    def packed(samples: list[Any]) -> Any:
        x, y = map(list, zip(*samples, strict=True))
        return nn.utils.rnn.pack_sequence(x, enforce_sorted=False), torch.tensor(y)

    losses = [
        simulated(
            tmp_path / engine,
            engine,
            kept(Words)[0],
            model=Packed,
            collate=packed,
            test_data=lambda: Words(9),
        ).central["loss"]
        for engine in ("exact", "stacked")
    ]
    assert losses[0] == losses[1]


def test_clients_with_arrays_and_with_data_sets_are_trained_together(
    tmp_path: Path,
) -> None:
    """One client returns arrays of what the others read."""

    def in_memory(index: int) -> Any:
        data = Points(index)
        x, y = zip(*(data[row] for row in range(len(data))), strict=True)
        return np.stack(x), np.array(y)

    mixed = kept(lambda i: in_memory(i) if i == 1 else Points(i))[0]
    runs = [
        simulated(
            tmp_path / name,
            "stacked",
            data,
            model=lambda: nn.Linear(5, 2),
            test_data=lambda: in_memory(9),
        )
        for name, data in {"mixed": mixed, "arrays": kept(in_memory)[0]}.items()
    ]
    mixed_run, arrays = (run.central["loss"] for run in runs)
    np.testing.assert_allclose(mixed_run, arrays, rtol=1e-5)


@pytest.mark.processes
def test_processes_read_what_their_tasks_use(tmp_path: Path) -> None:
    runs = [
        latecomer.run(
            {
                "algorithm": {"kind": "fed_avg", "buffer": 4},
                "stop": {"versions": 2},
                "simulate": {"clients": 4, "engine": {"processes": processes}},
            },
            ON_DISK,
            folder=tmp_path / str(processes),
        )
        for processes in (1, 2)
    ]
    one, two = (run.central["loss"] for run in runs)
    np.testing.assert_allclose(one, two, rtol=1e-5)


ON_DISK = TorchWorkload(
    model=Bag,
    loss=nn.CrossEntropyLoss(),
    collate=padded,
    num_workers=1,  # which a process of an engine does not start
    train_data=lambda client: Words(client.index),
    test_data=lambda: Words(9),
)
