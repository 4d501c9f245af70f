"""Every file of a user or a stranger: read, or refused in a sentence of ours.

No other exception, no wait, and nothing that fills the memory.
"""

import json
import re
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from fedclient.device.conditions.config import read_conditions
from fedclient.device.pace import read_pace
from fedclient.state.store import ClientStore
from fedclient.work.choices import read_choices
from fedcore.errors import LatecomerError
from fedcore.params import ParamSpec, content_digest
from fedcore.participant import ParticipantState, Pending, Sent
from fedcore.protocol import Held, ModelName, Push, Settled, Verdict
from fedflower.app.folder import FlowerFolder, read_config, scalar
from fedrun.cli.command import data_changes
from fedrun.config import load_config, parse_config
from fedrun.config.load import change_config, parse_algorithm
from fedrun.files import SPEC, load_model, load_rest, load_version, save_model
from fedrun.journal import Journal
from fedrun.journal import verify as verified
from fedrun.journal.recover import recover
from fedrun.journal.store import checksum
from fedrun.phase_file import FORMAT, first_client, read_phases
from fedsim.traces.journal import read_clients
from fedsim.traces.read import read_trace, read_values
from fedstudies.cache import INDEX, Cache, read_point
from fedstudies.codecs.pairs import candidate
from fedstudies.plan.pilots import Pilots
from fedstudies.prices.price_file import (
    EXAMPLES,
    MachinesConfig,
    PricesConfig,
    read_prices,
)
from fedview.results import FRAMES, Results
from tests.fedrun.journal.runs import written
from tests.fedview.report.story import short_story
from tests.patience import must_end

SECONDS, MEMORY = 60.0, 300 << 10  # of CPU; in kB
LONGEST = 5_000  # characters of what is said

PIECES = [
    b"", b" ", b"\n", b"\t", b"\r\n", b"\0", b"\x1b[2J", b"\xff\xfe", b"\xef\xbb\xbf",
    b"\xed\xa0\x80", b"1" * 5_000, b"-1", b"0", b"1e400", b"1e-400", b".5", b"nan",
    b".nan", b"inf", b"-.inf", b"NaN", b"Infinity", b"null", b"~", b"true", b"no",
    b"2020-13-45", b"22:00", b"1:1:1", b"0x" + b"f" * 999, b"[" * 1_500, b"{" * 999,
    b'{"a":' * 999, b"{a: " * 500, b"- " * 500, b"&a [*a]", b"*a", b"<<: *a",
    b"!!python/name:os.system", b"!!binary x", b'"\\ud800"', b'"\\0"', b"'", b'"', b",",
    b"? [x]", b",,,", b":", b"=", b"#", b"%", b"\\", b"[]", b"{}", b"[1]", b'{"a": 1}',
    b"18446744073709551616", b"\xd9\xa1\xd9\xa2", b"\xe2\x98\x83",
    b"x" * 20_000, b"../../etc/passwd",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, 0, 1, -1, 7, 2**31, 2**63, 2**64, 10**400, 0.5, -1.5, 1e300,
    float("nan"), float("inf"), "", "x", "y" * 3_000, "\0", "\x1b[2J", "../x", [],
    [1], [[1]], ["a"], [2**62], [None] * 300, {}, {"a": 1}, {"a": {"b": []}},
    {"kind": "fed_avg"},
]  # fmt: skip


def lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def model_file() -> bytes:
    """A model with what only a file of this program has."""
    spec = ParamSpec.of({"w": np.zeros((2, 2), np.float32)})
    arrays: dict[str, Any] = {"w": np.ones((2, 2), np.float32), "mean": np.zeros(3)}
    told = {
        SPEC: spec.to_json(),
        "version": "3",
        "latecomer.about": '{"adapter": "{}"}',
    }
    return save(arrays, told)


ROW = {"task": 0, "phase": "compute", "start": 0.0, "duration": 1.0, "bytes": 3}
TRIAL = {
    "seed": 0, "versions": 1, "updates": 2, "bytes_up": 3, "bytes_down": 4,
    "seconds": 1.0, "places": [[1.0, 1, 2, 3]], "metrics": {"loss": [0.5]},
}  # fmt: skip
PILOT = {
    "protocol": "buffered", "local_steps": 2, "trial": TRIAL, "counts": [1],
    "task_seconds": [1.0], "where": "x",
}  # fmt: skip
TOML = (
    '[project]\nname = "a"\n[tool.flwr.app.components]\nclientapp = "a:b"\n'
    "[tool.flwr.app.config]\nrounds = 3\nlr = 0.1\n[tool.flwr.federations]\n"
    'default = "x"\n[tool.flwr.federations.x]\noptions.num-supernodes = 4\n'
)
TRACE = "client,start,end,state,steps,latency\na,0,1.5,away,,\na,1.5,3,task,5,0.1\n"
CONFIG = (
    "app: a:b\nseed: 3\nserver: {journal: runs/a}\nalgorithm:\n  kind: fed_buff\n"
    "  buffer: 3\n  uplink: {kind: top_k, ratio: 0.1}\n"
    "stop: {target: {accuracy: 0.9}}\nsimulate:\n  clients: 4\n"
    "  speed: {kind: empirical, values: [1, 2]}\n  args: {a: b}\n"
)
Read = Callable[[Path], object]
FILES: dict[str, tuple[str, bytes, Read]] = {
    "config": ("fed.yaml", CONFIG.encode(), load_config),
    "prices": (
        "p.yaml",
        (EXAMPLES / "workers" / "aws_v100_2023.yaml").read_text("utf-8").encode(),
        lambda path: read_prices(path, PricesConfig),
    ),
    "machines": (
        "m.yaml",
        (EXAMPLES / "machines" / "aws_gpus_2026.yaml").read_text("utf-8").encode(),
        lambda path: read_prices(path, MachinesConfig),
    ),
    "conditions": (
        "c.yaml",
        b"charging: true\nidle: 0.3\nhours: [22:00-06:00]\nlook_every: 60\n",
        read_conditions,
    ),
    "pace": ("pace", b"1.5\n2 lost\n0\n", lambda path: read_pace(str(path))),
    "trace": ("t.csv", TRACE.encode(), read_trace),
    "values": ("v.csv", b"seconds\n1.5\n2\n", read_values),
    "phases": (
        "phases",
        lines({"format": FORMAT, "client": "a", "run": "r"}, ROW, ROW).encode(),
        lambda path: (first_client(path), read_phases(path)),
    ),
    "model": (
        "m.safetensors",
        model_file(),
        lambda path: (load_version(path), load_model(path), load_rest(path)),
    ),
    "sweep": (
        INDEX,
        json.dumps({"points": [{"name": "a", "runs": {"0": "abc"}}]}).encode(),
        lambda path: read_point(path.parent, 1),
    ),
    "cache": (
        "runs/abc.json",
        json.dumps({"config": {"seed": 1}, "trial": TRIAL}).encode(),
        lambda path: Cache(path.parents[1]).get("abc"),
    ),
    "pilot": (
        "pilots/abc.json",
        json.dumps(PILOT).encode(),
        lambda path: Pilots(path.parents[1]).get("abc"),
    ),
    "flower app": (
        "pyproject.toml",
        TOML.encode(),
        lambda path: FlowerFolder.read(path.parent),
    ),
    "flower config": (
        "run.toml",
        b"[a]\nb = 1\nc = 'x'\n",
        lambda path: read_config(str(path), "--run-config"),
    ),
}
WORDS: dict[str, Callable[[str], object]] = {
    "--set": lambda text: change_config({}, text),
    "--set, a field": lambda text: _changed(f"algorithm.buffer={text}"),
    "--set, an argument": lambda text: _changed(f"simulate.args.{text}"),
    "--choose": lambda text: read_choices([text, f"batch={text}"]),
    "--data": lambda text: data_changes([text, f"a={text}"]),
    "--run-config": lambda text: (read_config(text, "--run-config"), scalar(text)),
    "--uplink": lambda text: candidate("uplink", text, parse_config({}).algorithm),
    "an algorithm that a server told": parse_algorithm,
    "a model that a peer told": ParamSpec.from_json,
}


def _changed(change: str) -> None:
    raw: dict[str, Any] = {}
    change_config(raw, change)
    parse_config(raw)


def said(read: Callable[[], object]) -> str:
    """What is said of junk; empty if it could be read."""
    before = getrusage(RUSAGE_SELF).ru_maxrss
    try:
        with must_end(SECONDS):
            read()
    except LatecomerError as error:
        return str(error)
    finally:
        assert getrusage(RUSAGE_SELF).ru_maxrss - before < MEMORY
    return ""


@st.composite
def spoilt(draw: st.DrawFn, sound: bytes) -> bytes:
    """A sound file in which some places hold something else."""
    content = sound
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(content)))
        end = draw(st.integers(start, min(len(content), start + 20)))
        piece = draw(st.sampled_from(PIECES) | st.binary(max_size=8))
        content = content[:start] + piece + content[end:]
    return content


@pytest.mark.parametrize("what", FILES)
def test_a_sound_file_is_read(tmp_path: Path, what: str) -> None:
    name, sound, read = FILES[what]
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(sound)
    told = said(lambda: read(path))
    assert not told or what in ("sweep", "phases")  # whose other parts are not there


@pytest.mark.parametrize("what", FILES)
@settings(max_examples=40)
@given(data=st.data())
def test_any_file_is_read_or_refused_in_a_sentence(
    what: str, data: st.DataObject
) -> None:
    name, sound, read = FILES[what]
    content = data.draw(spoilt(sound) | st.sampled_from(PIECES))
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        assert len(said(lambda: read(path))) < LONGEST


@pytest.mark.parametrize("what", WORDS)
@settings(max_examples=40)
@given(
    text=st.lists(
        st.sampled_from([piece.decode(errors="surrogateescape") for piece in PIECES])
        | st.sampled_from(["a", "kind", "=", ".", ":", "top_k", "ratio"])
        | st.text(max_size=5),
        min_size=1,
        max_size=4,
    ).map("".join)
)
def test_any_words_are_taken_or_refused_in_a_sentence(what: str, text: str) -> None:
    # The end of a command shows no more than the beginning of what it says.
    assert len(said(lambda: WORDS[what](text))) < LONGEST + 3 * len(text)


# ------------------------------------------------- sound checksums, and junk behind


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to all values in plain data."""
    found = [at] if at else []
    inner = value.items() if isinstance(value, dict) else []
    if isinstance(value, list):
        inner = list(enumerate(value))[:3]
    for key, each in inner:
        found += places(each, (*at, key))
    return found


@st.composite
def changed(draw: st.DrawFn, value: Any) -> Any:
    """Plain data of which one value is something else, or gone."""
    value = json.loads(json.dumps(value))
    *parents, last = draw(st.sampled_from(places(value)))
    place = value
    for step in parents:
        place = place[step]
    if isinstance(place, dict) and draw(st.integers(0, 9)) == 0:
        del place[last]
    else:
        place[last] = draw(st.sampled_from(VALUES))
    return value


@cache
def rows_of(folder: Path) -> list[tuple[int, str, str, bytes]]:
    with closing(sqlite3.connect(folder / "journal.sqlite3")) as db:
        rows = db.execute("SELECT number, kind, body, payload FROM records")
        return [(number, kind, body, blob or b"") for number, kind, body, blob in rows]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Runs with all that is told and decided."""
    told = short_story().write(tmp_path_factory.mktemp("story") / "run")
    decided = written(tmp_path_factory.mktemp("decided"), updates=3).folder
    for folder in (told, decided):
        with closing(sqlite3.connect(folder / "journal.sqlite3")) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return [told, decided]


def rewritten(folder: Path, number: int, kind: str, body: str, payload: bytes) -> None:
    check = checksum(number, kind, body, payload)
    with closing(sqlite3.connect(folder / "journal.sqlite3")) as db, db:
        db.execute(
            "UPDATE records SET body = ?, checksum = ? WHERE number = ?",
            (body, check, number),
        )


@settings(max_examples=40)
@given(data=st.data())
def test_any_record_with_a_right_checksum_is_told_or_refused_in_a_sentence(
    runs: list[Path], data: st.DataObject
) -> None:
    folder = data.draw(st.sampled_from(runs))
    rows = rows_of(folder)
    wanted = data.draw(st.sampled_from(sorted({kind for _, kind, _, _ in rows})))
    row = data.draw(st.sampled_from([row for row in rows if row[1] == wanted]))
    body = data.draw(changed(json.loads(row[2])))
    rewritten(folder, row[0], row[1], json.dumps(body), row[3])
    try:
        for use in (_told, _traced, _recovered, _verified):
            assert len(said(lambda use=use: use(folder))) < LONGEST  # type: ignore[misc]
    finally:
        rewritten(folder, *row)


def _told(folder: Path) -> None:
    results = Results(folder)
    assert results.summary
    assert all(getattr(results, name) is not None for name in FRAMES)


def _traced(folder: Path) -> None:
    read_clients(Results(folder))


def _recovered(folder: Path) -> None:
    with closing(Journal.open(folder, read_only=True)) as journal:
        recover(journal)


def _verified(folder: Path) -> None:
    with closing(Journal.open(folder, read_only=True)) as journal:
        verified(journal)


@pytest.fixture(scope="module")
def snapshot(runs: list[Path]) -> tuple[Path, Any, Any]:
    """A run, and what its snapshot holds."""
    with closing(Journal.open(runs[1])) as journal:
        state = recover(journal).coordinator.state
        scalars, arrays = state.dump()
    return runs[1], scalars, arrays


@settings(max_examples=40)
@given(data=st.data())
def test_any_snapshot_with_a_right_checksum_is_taken_or_refused_in_a_sentence(
    snapshot: tuple[Path, Any, Any], data: st.DataObject
) -> None:
    folder, scalars, arrays = snapshot
    arrays = dict(arrays)
    if data.draw(st.booleans()):
        scalars = data.draw(changed(scalars))
    else:
        name = data.draw(st.sampled_from(sorted(arrays)))
        arrays[name] = data.draw(
            st.sampled_from(
                [np.zeros(3, np.float32), np.zeros((), np.int8), arrays[name][:0]]
            )
        )
    with closing(Journal.open(folder)) as journal:
        number = journal.store.last
        journal.snapshots.save(number, scalars, arrays)
        try:
            assert len(said(lambda: recover(journal))) < LONGEST
        finally:
            journal.snapshots.remove(number)


STATE = ParticipantState(
    cid="c" * 32,
    run_id="run",
    epoch="e" * 16,
    held=Held("e" * 16, 3, "d" * 32, 7),
    public_D=np.ones(4, np.float32),
    memory_D=np.ones(4, np.float32),
    seq=2,
    settled=Settled(1, Verdict.ACCEPTED, 5),
    history=(Sent(1, b"old", True),),
    oldest=ModelName("e" * 16, 2),
    kept=(1, np.ones(2), {"a": "b"}),
    keeper="scaffold",
)


@settings(max_examples=40)
@given(data=st.data())
def test_any_state_with_a_right_checksum_is_taken_or_refused_in_a_sentence(
    data: st.DataObject,
) -> None:
    push = Push(
        cid=STATE.cid, epoch=STATE.epoch, seq=2, base=ModelName(STATE.epoch, 3),
        payload=b"new", digest="", settled=STATE.settled, samples=3,
        counts=np.array([1, 2]), metrics={"loss": 0.5},
    )  # fmt: skip
    push = replace(push, digest=content_digest(b"new"))
    state = replace(STATE, pending=Pending(push, np.ones(4, np.float32)))
    with TemporaryDirectory() as folder:
        with closing(ClientStore(Path(folder), durable=False)) as store:
            store.save(state)
        with closing(sqlite3.connect(Path(folder) / "state.sqlite3")) as db, db:
            query = "SELECT value FROM facts WHERE key = 'state'"
            facts = json.loads(db.execute(query).fetchone()[0])
            text = json.dumps(data.draw(changed(facts)))
            check = zlib.crc32(text.encode(), zlib.crc32(b"facts/state\0\0"))
            for table, value in (("facts", text), ("checks", check)):
                key = "state" if table == "facts" else "facts/state"
                db.execute(f"UPDATE {table} SET value = ? WHERE key = ?", (value, key))

        def load() -> None:
            with closing(ClientStore(Path(folder), durable=False)) as store:
                store.load()

        assert len(said(load)) < LONGEST


@pytest.mark.parametrize(
    ("table", "value"),
    [
        ("facts", 7), ("facts", b"\xff"), ("vectors", "text"), ("vectors", 7),
        ("vectors", b"odd"), ("history", "text"), ("history", 7),
    ],
)  # fmt: skip
def test_a_value_of_another_type_in_a_state_is_told(
    tmp_path: Path, table: str, value: object
) -> None:
    with closing(ClientStore(tmp_path, durable=False)) as store:
        store.save(STATE)
        store.key()
    column = "payload" if table == "history" else "value"
    with closing(sqlite3.connect(tmp_path / "state.sqlite3")) as db, db:
        db.execute(f"UPDATE {table} SET {column} = ?", (value,))

    def load() -> None:
        with closing(ClientStore(tmp_path, durable=False)) as store:
            store.key()
            store.load()

    assert re.search("is damaged", said(load))


def test_a_model_of_more_than_the_memory_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    flat_D = np.zeros(3, np.float32)
    save_model(path, ParamSpec.of({"w": flat_D}), flat_D)
    with path.open("r+b") as file:
        file.truncate(1 << 43)
    assert "claims" in said(lambda: load_model(path))


def test_a_config_that_is_written_is_read(tmp_path: Path) -> None:
    config = load_config_of(tmp_path, CONFIG)
    text = yaml.safe_dump(config.model_dump(mode="json"))
    assert load_config_of(tmp_path, text) == config


def load_config_of(folder: Path, text: str) -> Any:
    (folder / "fed.yaml").write_text(text)
    return load_config(folder / "fed.yaml")
