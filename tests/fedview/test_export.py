"""Models and tables taken out of a run."""

import csv
import json
import signal
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import latecomer
from fedcore.coordinator.events import Stepped
from fedcore.errors import ConfigError, JournalError
from fedcore.params import digest
from fedrun.config import load_config
from fedrun.journal.versions import in_words
from fedrun.run import Run
from fedview.callbacks import Notice
from fedview.export import TABLES, export_config, export_model, export_tables
from fedview.results import Results
from fedview.results.columns import text_of, write_columns
from tests.fedrun.journal.runs import Written
from tests.fedsim import toys

DOWNLINK = {"algorithm": {"downlink": {"kind": "top_k", "ratio": 0.5}}}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated run of eight versions, compressed on the way down."""
    folder = tmp_path_factory.mktemp("export") / "run"
    latecomer.run(toys.settings(**DOWNLINK), toys.toy(), folder=folder)
    return folder


def exported(
    run: Path, out: Path, which: str, version: int | None = None
) -> list[float]:
    said = export_model(run, out, which, version)
    assert said.startswith(f"{out}: ")
    return [float(value) for value in load_file(out)["w"]]


def test_every_version_can_be_taken_out_and_has_its_digest(
    run: Path, tmp_path: Path
) -> None:
    published = toys.digests(toys.records(run))
    for version, name in enumerate(published, start=1):
        w = exported(run, tmp_path / "m", "last", version)
        assert digest(np.array(w, np.float32)) == name


def test_last_is_the_last_version_and_initial_is_version_0(
    run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "m"
    assert exported(run, out, "last") == exported(run, out, "last", 8)
    assert exported(run, out, "initial") == exported(run, out, "last", 0)
    assert exported(run, out, "initial") == [0.0] * toys.DIM


def went_on(folder: Path, until: int, updates: int) -> Path:
    """The run in a folder, taken up again."""
    run = Written(folder, stop={"versions": until})
    for _ in range(updates):
        run.push()
    run.close()
    return run.folder


def test_last_is_the_newest_version_of_a_run_that_was_continued(tmp_path: Path) -> None:
    out = tmp_path / "m"
    run = went_on(tmp_path, until=2, updates=2)
    assert exported(run, out, "last") == exported(run, out, "last", 2)
    went_on(tmp_path, until=9, updates=1)  # it has not ended
    assert exported(run, out, "last") == exported(run, out, "last", 3)
    went_on(tmp_path, until=4, updates=1)
    assert exported(run, out, "last") == exported(run, out, "last", 4)


def test_last_is_right_though_a_run_ends_as_it_is_opened(tmp_path: Path) -> None:
    went_on(tmp_path, until=1, updates=1)
    went_on(tmp_path, until=9, updates=2)
    run = went_on(tmp_path, until=3, updates=0)
    out = tmp_path / "m"
    assert export_model(run, out, "last", None) == f"{out}: the last model of {run}"
    assert exported(run, out, "last") == exported(run, out, "last", 3)


def test_the_exact_model_is_ahead_of_the_public_one(run: Path, tmp_path: Path) -> None:
    exact = exported(run, tmp_path / "m", "exact")
    public = exported(run, tmp_path / "m", "last")
    gap = float(np.linalg.norm(np.array(exact) - np.array(public)))
    assert gap == pytest.approx(Results(run).versions["gap_norm"][-1], rel=1e-4)
    assert gap > 0


def test_the_best_model_is_the_one_that_was_measured_best(
    run: Path, tmp_path: Path
) -> None:
    _, version = Results(run).best["loss"]
    best = exported(run, tmp_path / "m", "best")
    assert best == exported(run, tmp_path / "m", "last", version)


def test_a_version_that_never_was_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="run never published version 9"):
        export_model(run, tmp_path / "m", "last", 9)
    assert not (tmp_path / "m").exists()


def test_without_an_evaluation_there_is_no_best(tmp_path: Path) -> None:
    workload = toys.toy(test_data=None)
    latecomer.run(toys.settings(), workload, folder=tmp_path / "run")
    with pytest.raises(JournalError, match="run has no best model yet"):
        export_model(tmp_path / "run", tmp_path / "m", "best", None)


def test_the_tables_are_files_of_rows(run: Path, tmp_path: Path) -> None:
    results = Results(run)
    paths = export_tables(run, tmp_path / "tables")
    paths = [path for path in paths if path.suffix == ".csv"]
    assert [path.name for path in paths] == [f"{name}.csv" for name in TABLES]
    for name, path in zip(TABLES, paths, strict=True):
        table = getattr(results, name)
        with path.open(newline="", encoding="utf-8") as file:
            head, *rows = list(csv.reader(file)) or [[]]
        assert head == list(table)
        assert len(rows) == len(next(iter(table.values()), []))
    with (tmp_path / "tables" / "versions.csv").open(encoding="utf-8") as file:
        versions = [int(row["version"]) for row in csv.DictReader(file)]
    assert versions == list(range(1, 9))


@pytest.mark.needs("pyarrow")
def test_with_pyarrow_the_tables_are_parquet_as_well(run: Path, tmp_path: Path) -> None:
    parquet = import_module("pyarrow.parquet")
    export_tables(run, tmp_path)
    results = Results(run)
    for name in TABLES:
        table = getattr(results, name)
        path = tmp_path / f"{name}.parquet"
        assert path.exists() == bool(table)
        if table:
            assert parquet.read_table(path).to_pydict() == table


def test_the_config_can_be_simulated_again_as_it_is(tmp_path: Path) -> None:
    place = tmp_path / "project"
    place.mkdir()
    (place / "mine.py").write_text(toys.APP)
    settings = {**toys.settings(**DOWNLINK), "app": "mine:workload"}
    results = latecomer.run(settings, toys.toy(), folder=tmp_path / "run")
    paths = export_config(results.folder, place)
    assert [path.name for path in paths] == ["config.yaml", "versions.json"]
    config = load_config(paths[0])
    assert config.app == f"{place / 'mine.py'}:workload"
    again = latecomer.run(config, toys.toy(), folder=tmp_path / "again")
    assert toys.digests(again.records) == toys.digests(results.records)
    assert json.loads(paths[1].read_text())["numpy"] == np.__version__


def test_a_cell_that_a_spreadsheet_would_compute_is_quoted(tmp_path: Path) -> None:
    names = ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "ann", "a=b", "'x"]
    table: dict[str, Any] = {
        "=cmd()": names,
        "value": [-1.5, -2, 3, None, 0.5, True, 1e-9, 0, -0.0],
    }
    [path] = [p for p in write_columns(table, tmp_path / "t") if p.suffix == ".csv"]
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["'=cmd()", "value"]
    assert [row[0] for row in rows[1:]] == [
        *("'=1+1", "'+1", "'-1", "'@x", "'\tx", "'\rx", "ann", "a=b", "'x")
    ]
    assert [row[1] for row in rows[1:4]] == ["-1.5", "-2", "3"]
    assert [text_of(row[0]) for row in rows[1:]] == names


# ------------------------------------------------- the model at a version in the past


def test_every_version_of_a_run_can_be_had_in_python(run: Path, tmp_path: Path) -> None:
    results = Results(run)
    published = {record.version: record.digest for record in results.of(Stepped)}
    assert len(published) == 8
    for version, expected in published.items():
        w = results.model(version=version)["w"]
        assert digest(w.ravel()) == expected
        assert w.ravel().tolist() == exported(run, tmp_path / "m", "last", version)
    assert results.model(version=0).keys() == results.model("initial").keys()
    with pytest.raises(
        JournalError,
        match=r"never published version 9; it published the versions 0 to 8$",
    ):
        results.model(version=9)
    with pytest.raises(ConfigError, match="'lst': expected one of last, best, initial"):
        results.model("lst")


def test_a_run_in_stacks_has_the_versions_of_its_snapshots(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from tests.fedsim.test_stacked import WORKLOAD

    folder = tmp_path / "run"

    def interrupt(run: Run, event: Notice) -> None:
        if run.coordinator.state.version == 5:
            signal.raise_signal(signal.SIGINT)

    config = {
        **toys.settings(stop={"versions": 12}),
        "simulate": {"clients": 12, "engine": {"kind": "stacked"}},
    }
    with pytest.raises(KeyboardInterrupt):
        latecomer.run(config, WORKLOAD, folder=folder, on_event=interrupt)
    results = Results(folder)
    *_, newest = results.of(Stepped)
    model = results.model(version=newest.version)
    flat_D = np.concatenate([np.ravel(part) for part in model.values()])
    assert digest(flat_D.astype(np.float32)) == newest.digest
    with pytest.raises(JournalError, match="does not keep version 3; it keeps the"):
        results.model(version=3)


@pytest.mark.parametrize(
    ("given", "words"),
    [([3], "3"), ([4, 5, 0], "0 and 4, 5"), ([0, 7, 8, 9, 4], "0, 4 and 7 to 9")],
)
def test_versions_are_told_shortly(given: list[int], words: str) -> None:
    assert in_words(given) == words
