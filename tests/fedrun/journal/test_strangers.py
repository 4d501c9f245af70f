"""Runs that somebody else has made: nothing in them hangs, runs, or leads out."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from fedclient.state.store import ClientStore
from fedclient.wire.phases import PhaseLog
from fedclient.wire.transfer_counter import TransferCounter
from fedcore.errors import JournalError, LatecomerError
from fedcore.participant import ParticipantState
from fedrun.journal import Journal, backup, exists, public_model, remove, restore
from fedrun.journal import verify as verified
from fedrun.journal.database import SCHEMA
from fedrun.lock import is_locked
from fedrun.traffic_file import FILE as TRAFFIC
from fedrun.traffic_file import TrafficFile, read_traffic
from fedserver.calls.listening import OPERATOR_FILE, open_operator_socket
from fedsim.traces.format import ClientTrace, Segment
from fedsim.traces.write import write_trace
from fedstudies.cache import Cache
from fedstudies.coding import Coding
from fedstudies.frame import Findings, write_findings
from fedstudies.trial import Trial
from fedview.export import export_config, export_model, export_tables
from fedview.report import write_report
from fedview.results import Results
from tests.fedrun.journal.runs import LARGE, change, written
from tests.fedstudies.test_files import Sides
from tests.patience import must_end
from tests.strangers import ODD, a_hole, a_link, a_pipe

SECONDS = 20.0  # of CPU


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a segment, a snapshot and counted bytes, which is not served."""
    made = written(tmp_path_factory.mktemp("stranger"), dim=LARGE)
    journal = Journal.open(made.folder)
    made.run.journal = journal
    made.run.snapshot(journal.store.last)
    journal.close()
    traffic = TrafficFile(made.folder)
    traffic.save(traffic.load(), [("ann", "up", "dense", 1, 2, 3)])
    traffic.close()
    return made.folder


def read_all(folder: Path, out: Path) -> None:
    """Whatever only reads a run, one after the other."""
    exists(folder)
    is_locked(folder)
    read_traffic(folder)
    for read in (
        lambda: Results(folder).summary,
        lambda: write_report(folder, out / "page.html"),
        lambda: export_tables(folder, out / "tables"),
        lambda: export_model(folder, out / "m.safetensors", "initial", None),
        lambda: export_model(folder, out / "m.safetensors", "exact", None),
        lambda: backup(folder, out / "copy"),
        lambda: restore(folder, out / "again", lambda: "f" * 16),
    ):
        read()


FOLDERS = ("segments", "snapshots", "models", "cut", "evaluator")
FILES = (
    "journal.sqlite3",
    "journal.sqlite3-wal",
    "journal.sqlite3-shm",
    "journal.sqlite3-journal",
    "journal.mark",
    "segments/000001.segment",
    "snapshots/*.safetensors",
    "models/initial.safetensors",
    "traffic.sqlite3",
    "lock",
)
PLACES = [
    *((part, a_pipe) for part in (*FOLDERS, *FILES)),
    *((part, a_link) for part in (*FOLDERS, *FILES)),
    *((FILES[5], odd) for odd in ODD),
]


@pytest.mark.parametrize(("part", "odd"), PLACES)
def test_a_part_of_a_run_that_is_no_file_is_told_by_name(
    run: Path, tmp_path: Path, part: str, odd: Callable[[Path], None]
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    path = next(iter(folder.glob(part)), folder / part)
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    odd(path)
    for use in (
        lambda: read_all(folder, tmp_path / "out"),
        lambda: Journal.open(folder),
        lambda: remove(folder),
    ):
        with must_end(SECONDS), pytest.raises(JournalError) as raised:
            use()
        assert str(path) in str(raised.value)
        assert " is a" in str(raised.value) or "claims" in str(raised.value)
    foreign = path.parent / "foreign"
    assert not foreign.exists() or foreign.read_bytes() == b"mine"


FOREIGN = {
    "a view": (
        "ALTER TABLE records RENAME TO others",
        "CREATE VIEW records AS SELECT * FROM others",
    ),
    "a view that never ends": (
        "DROP TABLE facts",
        "CREATE VIEW facts AS WITH RECURSIVE n(key, value) AS (SELECT 'a', 'b' "
        "UNION ALL SELECT key, value FROM n) SELECT * FROM n",
    ),
    "a trigger": (
        "CREATE TRIGGER more AFTER INSERT ON records BEGIN DELETE FROM records; END",
    ),
    "a computed column": (
        "ALTER TABLE records ADD COLUMN more GENERATED ALWAYS AS (zeroblob(900000000))",
    ),
    "a computed index": ("CREATE INDEX more ON records (hex(kind))",),
    "a virtual table": ("CREATE VIRTUAL TABLE more USING fts5(a)",),
    "another table": ("CREATE TABLE more (a)",),
    "no facts": ("DROP TABLE facts",),
    "no records": ("DROP TABLE records",),
}


@pytest.mark.parametrize("statements", FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_schema_is_one_clear_error(
    run: Path, tmp_path: Path, statements: tuple[str, ...]
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    for statement in statements:
        change(folder, statement)
    for use in (
        lambda: Results(folder).summary,
        lambda: Journal.open(folder),
        lambda: Journal.open(folder, repairing=True),
        lambda: backup(folder, tmp_path / "copy"),
    ):
        with must_end(SECONDS), pytest.raises(JournalError) as raised:
            use()
        assert "somebody else has made it" in str(raised.value)
        assert str(folder / "journal.sqlite3") in str(raised.value)


def test_a_foreign_schema_without_a_version_is_no_fresh_journal(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as db:
        db.executescript(f"{SCHEMA}; PRAGMA user_version = 0;")
    with pytest.raises(JournalError, match="somebody else has made it"):
        Journal.open(tmp_path)


def test_a_journal_that_was_analysed_is_still_one(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    change(folder, "ANALYZE")
    Journal.open(folder).close()


def test_files_of_other_names_are_left_alone(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    for name in (
        "segments/notes.segment",
        "segments/١٢٣٤٥٦.segment",
        "snapshots/000000000001 (copy).safetensors",
        f"snapshots/{'9' * 200}.safetensors",
        "snapshots/mine.copied",
        "report.html",
    ):
        (folder / name).write_bytes(b"junk")
    with closing(Journal.open(folder)) as journal:
        verified(journal)
    backup(folder, tmp_path / "copy")


# ----------------------------------------------------------------- what is written


def _trial() -> Trial:
    return Trial(
        seed=0,
        versions=0,
        updates=0,
        bytes_up=0,
        bytes_down=0,
        seconds=1.0,
        places=[],
        metrics={},
    )


WRITERS: dict[str, Callable[[Path, Path], object]] = {
    "report": lambda run, to: write_report(run, to / "report.html"),
    "tables": lambda run, to: export_tables(run, to),
    "model": lambda run, to: export_model(run, to / "m.safetensors", "initial", None),
    "exact model": lambda run, to: export_model(
        run, to / "m.safetensors", "exact", None
    ),
    "backup": lambda run, to: backup(run, to),
    "restore": lambda run, to: restore(run, to, lambda: "f" * 16),
    "trace": lambda run, to: write_trace(
        to / "trace.csv", [ClientTrace("ann", [Segment(0.0, 1.0, "there")])]
    ),
    "study": lambda run, to: write_findings(
        Coding(2, out=to), Sides(), Findings("a", "b", "c", {"a": 1})
    ),
    "cache": lambda run, to: Cache(to).put("abc", {}, _trial()),
    "traffic": lambda run, to: _written_traffic(to),
    "client": lambda run, to: _written_client(to),
    "phases": lambda run, to: PhaseLog(to / "trace", TransferCounter()).close(),
    "operator": lambda run, to: _written_note(to),
}


def _written_traffic(folder: Path) -> None:
    file = TrafficFile(folder)
    file.save(file.load(), [("ann", "up", "dense", 1, 2, 3)])
    file.close()


def _written_client(folder: Path) -> None:
    with closing(ClientStore(folder)) as store:
        store.save(ParticipantState("a" * 32, "run", "e" * 16))


def _written_note(folder: Path) -> None:
    with open_operator_socket(folder) as address:
        assert address is None or (folder / OPERATOR_FILE).is_file()


def _names(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*"))


@pytest.mark.parametrize("what", WRITERS)
def test_nothing_that_is_written_leaves_its_folder(
    run: Path, tmp_path: Path, what: str
) -> None:
    fair = tmp_path / "fair"
    fair.mkdir()
    WRITERS[what](run, fair)
    names = _names(fair) or [Path(OPERATOR_FILE)]  # which is gone at the end
    names += [name.with_name(f".{name.name}.tmp") for name in names]
    names += [
        name.with_name(f"{name.name}{end}")
        for name in names
        if name.suffix == ".sqlite3"
        for end in ("-wal", "-shm", "-journal")
    ]
    for number, name in enumerate(dict.fromkeys([*names, Path("lock")])):
        outside, folder = tmp_path / f"outside{number}", tmp_path / f"unfair{number}"
        outside.mkdir()
        is_folder = (fair / name).is_dir()
        foreign = outside if is_folder else outside / "foreign"
        if not is_folder:
            foreign.write_bytes(b"mine")
        (folder / name).parent.mkdir(parents=True)
        (folder / name).symlink_to(foreign)
        with must_end(SECONDS), suppress(LatecomerError, OSError):
            WRITERS[what](run, folder)
        assert is_folder or foreign.read_bytes() == b"mine", name
        assert len(list(outside.iterdir())) == (not is_folder), name


def test_the_pages_of_a_run_follow_no_link_out_of_it(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b"mine")
    for name in ("report.html", "config.yaml", "versions.json"):
        (folder / name).symlink_to(foreign)
    write_report(folder)
    export_config(folder)
    assert foreign.read_bytes() == b"mine"
    assert not any(path.is_symlink() for path in folder.iterdir())


# ------------------------------------------------------------------- beside a run


@pytest.mark.parametrize("odd", [odd for odd in ODD if odd is not a_hole])
def test_bytes_that_cannot_be_read_are_told_and_end_nothing(
    tmp_path: Path, odd: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    odd(tmp_path / TRAFFIC)
    with must_end(SECONDS):
        read_traffic(tmp_path)
        file = TrafficFile(tmp_path)
        file.save(file.load(), [("ann", "up", "dense", 1, 2, 3)])
        file.close()
    assert TRAFFIC in caplog.text
    foreign = tmp_path / "foreign"
    assert not foreign.exists() or foreign.read_bytes() == b"mine"


@pytest.mark.parametrize(
    "row",
    [
        "'a', 'up', 'c', 'many', 1, 1",
        "'a', 'across', 'c', 1, 1, 1",
        "'a', 'up', 'c', -1, 1, 1",
        "'a', 'up', 'c', 1.5, 1, 1",
    ],
)
def test_rows_that_hold_no_counts_are_told(
    tmp_path: Path, row: str, caplog: pytest.LogCaptureFixture
) -> None:
    _written_traffic(tmp_path)
    with closing(sqlite3.connect(tmp_path / TRAFFIC)) as db, db:
        db.execute(f"INSERT INTO lanes VALUES ({row})")
    assert read_traffic(tmp_path) is None
    assert "holds no counts" in caplog.text


def test_a_version_of_a_strangers_run_is_read(run: Path) -> None:
    with closing(Journal.open(run, read_only=True)) as journal:
        assert public_model(journal, 1) is not None
