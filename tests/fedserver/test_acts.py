"""Pause, resume, evict and snapshot, by the commands, on runs served and not served."""

import asyncio
import errno
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fedwire.connect import parse_address
from fedwire.frames import chunk_frames, header_frame
from fedwire.service import Stub
from fedwire.v1 import federation_pb2 as pb

from fedcore.coordinator.events import Evicted, Leased, Paused, SnapshotOrdered
from fedcore.errors import RefusedError
from fedrun.journal import Journal, verify
from fedrun.run import open_run
from fedserver.calls.acts import this_operator
from fedserver.cli import main
from fedserver.operator.remote import ask_status, operate
from fedserver.view.live import LiveView
from fedserver.view.status import status_table
from fedview.report import write_report
from tests.fedserver.honest import refused
from tests.fedserver.test_status import shown
from tests.fedserver.test_tls import Certificates, encrypted, trusted  # noqa: F401
from tests.peer import CALL, Peer, packed
from tests.served import Served, ones, served, settings, until

GOOD = packed(ones())
QUICK = {"hold": 0.2}


def command(*words: object) -> Result:
    return CliRunner().invoke(main, list(map(str, words)))


def beats() -> Iterator[pb.Beat]:
    while True:
        time.sleep(0.05)
        yield pb.Beat()


def folder_of(server: Served) -> Path:
    return server.config.server.journal


def records(folder: Path, kind: type) -> list[Any]:
    with closing(Journal.open(folder, read_only=True)) as journal:
        found = [entry.record for entry in journal.entries()]
    return [record for record in found if isinstance(record, kind)]


def test_a_paused_run_takes_nothing_in_and_gives_no_tasks(tmp_path: Path) -> None:
    with served(tmp_path, timeouts={**QUICK, "drain": 1.0, "linger": 0.0}) as server:
        folder = folder_of(server)
        with Peer(server.address, "ann") as ann, Peer(server.address, "bob") as bob:
            ann.pull()
            done = command("pause", folder, "--reason", "new sensors")
            assert done.exit_code == 0, done.output
            assert done.stdout.startswith("paused at version 0")
            told = bob.pull()
            assert told.task == pb.TASK_KIND_NONE
            assert told.reason == "the operator has paused the run: new sensors"
            kept = ann.push(GOOD)
            assert (kept.answer, kept.reason) == (pb.ANSWER_RETRY, told.reason)
            status = ask_status(server.address)
            assert (status["version"], status["paused"]) == (0, "new sensors")
            assert "new sensors" in shown(status_table(status))
            assert "has paused the run" in shown(LiveView(server.progress)._draw())
            assert server.lines("paused")[0]["reason"] == "new sensors"
            again = command("pause", folder)
            assert again.exit_code == 78
            sentence = f"error: {folder}: the run is paused already: new sensors\n"
            assert again.stderr == sentence
            assert command("resume", folder).stdout == "goes on at version 0\n"
            assert ann.push(GOOD).answer == pb.ANSWER_ACCEPTED
            assert bob.pull().task == pb.TASK_KIND_TRAIN
            assert "is not paused" in command("resume", folder).stderr
            assert ask_status(server.address)["paused"] is None
    assert len(records(folder, Leased)) == 2
    with closing(Journal.open(folder, read_only=True)) as journal:
        assert verify(journal).accepted == 1
    page = write_report(folder, None)
    assert "pauses the run: new sensors" in Path(str(page).split()[0]).read_text()


def test_an_evicted_client_hears_why_and_its_updates_stay(server: Served) -> None:
    folder = folder_of(server)
    with Peer(server.address, "ann") as ann, Peer(server.address, "bob") as bob:
        ann.pull()
        ann.push(GOOD)
        notices = ann.attend(1, beats())
        until(lambda: server.server._sessions.attending, "ann attends")
        done = command("evict", folder, "ann", "--reason", "broken camera")
        assert done.stdout == "'ann' is evicted, at version 1\n"
        notice = next(notices)
        assert notice.text == "the operator has evicted 'ann': broken camera"
        assert list(notices) == []  # the session is over
        assert list(ann.attend(2)) == []  # and no other one begins
        [line] = server.lines("evicted")
        assert (line["client"], line["reason"]) == ("ann", "broken camera")
        assert ann.pull().refused == pb.ANSWER_UNKNOWN
        assert ann.push(GOOD).answer == pb.ANSWER_UNKNOWN
        words = "the operator has evicted 'ann': broken camera"
        for name in ("ann", "other"):
            with refused("PERMISSION_DENIED", words):
                ann.enrol(name=name)
        bob.pull()
        assert bob.push(GOOD).answer == pb.ANSWER_ACCEPTED
        status = ask_status(server.address)
        assert status["version"] == 2
        assert status["evicted"] == {"ann": "broken camera"}
        [row] = [each for each in status["clients"] if each["name"] == "ann"]
        assert (row["doing"], row["accepted"], row["present"]) == ("evicted", 1, False)
        assert "broken camera" in shown(status_table(status))
        again = command("evict", folder, "ann")
        assert "'ann' is evicted already: broken camera" in again.stderr
        assert "no client has the name 'eve'" in command("evict", folder, "eve").stderr
        back = command("evict", folder, "ann", "--readmit")
        assert back.stdout == "'ann' may come back, at version 2\n"
        ann.enrol()
        ann.pull()
        assert ann.push(GOOD).answer == pb.ANSWER_ACCEPTED
        assert (
            "'ann' is not evicted"
            in command("evict", folder, "ann", "--readmit").stderr
        )


def at_once(server: Served, method: str, request: Any) -> list[Any]:
    """Two replies to the same request, both made while the core thread is busy."""
    busy, goes_on = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        busy.set()
        goes_on.wait(CALL)

    core = server.server._core
    with parse_address(server.operator_socket).channel() as channel:
        server._loop.call_soon_threadsafe(lambda: asyncio.ensure_future(core.ask(hold)))
        busy.wait(CALL)
        call = getattr(Stub(channel), method).future
        calls = [call(request, timeout=CALL) for _ in range(2)]
        until(lambda: core.waiting >= 2, "both wait")
        goes_on.set()
        return [each.result() for each in calls]


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (pb.ACT_PAUSE, "the run is paused already: so"),
        (pb.ACT_RESUME, "the run is not paused"),
        (pb.ACT_EVICT, "'ann' is evicted already: so"),
        (pb.ACT_READMIT, "'ann' is not evicted"),
    ],
)
def test_of_two_operators_at_once_one_hears_that_it_is_done(
    server: Served, act: pb.Act, sentence: str
) -> None:
    with Peer(server.address, "ann"):
        if act == pb.ACT_RESUME:
            command("pause", folder_of(server))
        if act == pb.ACT_READMIT:
            command("evict", folder_of(server), "ann")
        request = pb.OperateRequest(act=act, name="ann", reason="so")
        told = sorted(each.objection for each in at_once(server, "operate", request))
    assert told == ["", sentence]


def test_of_two_operators_who_free_a_name_at_once_one_hears_that_it_is_free(
    server: Served,
) -> None:
    with Peer(server.address, "ann"):
        told = at_once(server, "free", pb.FreeRequest(name="ann"))
    assert sorted(each.was_taken for each in told) == [False, True]


def test_an_upload_that_an_eviction_meets_counts_once_after_all(
    server: Served,
) -> None:
    folder, goes_on = folder_of(server), threading.Event()
    with Peer(server.address, "ann") as ann:
        ann.pull()
        header = ann.header(GOOD)
        first, *others = chunk_frames([GOOD], most=lambda: 150)

        def frames() -> Iterator[bytes]:
            yield header_frame(header)
            yield first
            goes_on.wait(CALL)
            yield from others

        uploads = server.server._service.pushes._uploads
        call = ann.stub.push.future(frames(), timeout=CALL)
        until(lambda: uploads.nbytes, "the upload has begun")
        assert command("evict", folder, "ann").exit_code == 0
        goes_on.set()
        assert call.result().answer == pb.ANSWER_UNKNOWN
        until(lambda: not uploads.nbytes, "its memory is free")
        assert command("evict", folder, "ann", "--readmit").exit_code == 0
        ann.enrol()
        for _ in range(2):  # the answer to the first one may be lost
            reply = ann.send([header_frame(header), *chunk_frames([GOOD])])
            assert reply.answer == pb.ANSWER_ACCEPTED
        assert server.state.applied == 1


def test_a_freed_name_is_for_a_device_in_place_of_the_evicted_one(
    server: Served,
) -> None:
    folder = folder_of(server)
    with Peer(server.address, "ann") as ann, Peer(server.address, "new") as new:
        command("evict", folder, "ann")
        command("free", folder, "ann")
        with refused("PERMISSION_DENIED", "the operator has evicted 'ann'"):
            ann.enrol()
        told = command("evict", folder, "ann", "--readmit")
        assert told.exit_code == 78
        assert "was evicted under it before stays out" in told.stderr
        assert new.enrol(name="ann").name == "ann"
        command("evict", folder, "ann")
        assert command("evict", folder, "ann", "--readmit").exit_code == 0
        assert new.enrol(name="ann").name == "ann"
        with refused("PERMISSION_DENIED", "the operator has evicted 'ann'"):
            ann.enrol(name="other")


def test_acts_outlast_a_kill_and_a_restart(tmp_path: Path) -> None:
    run = Served(tmp_path, settings(tmp_path, timeouts=QUICK))
    with run, Peer(run.address, "ann"), Peer(run.address, "bob"):
        folder = folder_of(run)
        command("pause", folder, "--reason", "so")
        command("evict", folder, "ann")
        killed = tmp_path / "killed"  # what a kill at this moment leaves on the disk
        shutil.copytree(folder, killed)
    for left in (folder, killed):
        config = settings(tmp_path, server={"journal": str(left)}, timeouts=QUICK)
        with Served(tmp_path, config) as again:
            assert ask_status(again.address)["paused"] == "so"
            with Peer(again.address, "bob") as bob:
                assert bob.pull().reason.endswith("paused the run: so")
                ann = Peer(again.address, "ann")
                with refused("PERMISSION_DENIED", "has evicted 'ann'"):
                    ann.enrol()
                ann.channel.close()
                command("resume", left)
                assert bob.pull().task == pb.TASK_KIND_TRAIN


def test_a_snapshot_is_written_now_and_says_where(server: Served) -> None:
    folder = folder_of(server)
    with Peer(server.address) as peer:
        peer.pull()
        peer.push(GOOD)
        done = command("snapshot", folder, "--reason", "before the update")
    assert done.exit_code == 0, done.output
    version, _, path = done.stdout.strip().partition(" is in ")
    assert version == "version 1"
    assert Path(path).is_file()
    [noted] = records(folder, SnapshotOrdered)
    assert noted.reason == "before the update"
    server.stop()
    Path(path).rename(folder / "aside")  # and the end's own snapshot is another one
    assert list((folder / "snapshots").iterdir())


def test_a_snapshot_that_cannot_be_written_is_said(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    folder = folder_of(server)
    with monkeypatch.context() as patch:
        patch.setattr("fedrun.journal.snapshots.save_arrays", full)
        done = command("snapshot", folder)
    assert done.exit_code == 78
    assert done.stderr == (
        f"error: {folder}: the snapshot could not be written; the server's log says "
        "why\n"
    )


def test_acts_of_a_run_that_nobody_serves(tmp_path: Path) -> None:
    run = Served(tmp_path, settings(tmp_path))
    with run, Peer(run.address, "ann"):
        pass
    folder = folder_of(run)
    long = command("pause", folder, "--reason", "x" * 300)
    assert (long.exit_code, long.stderr) == (
        78,
        "error: a reason of 300 characters, the limit is 256\n",
    )
    assert command("pause", folder, "--reason", "x").stdout.startswith("paused at")
    assert "is paused already: x" in command("pause", folder).stderr
    assert command("evict", folder, "ann").exit_code == 0
    done = command("snapshot", folder)
    assert Path(done.stdout.strip().partition(" is in ")[2]).is_file()
    assert [each.by for each in records(folder, Paused)] != [""]
    assert [each.name for each in records(folder, Evicted)] == ["ann"]
    with run:
        assert run.state.paused == "x"
        assert run.state.roster.evicted == {"ann": ""}


def test_acts_of_a_run_that_has_ended_or_is_not_there(tmp_path: Path) -> None:
    run = Served(tmp_path, settings(tmp_path, stop={"updates": 1}))
    with run:
        with Peer(run.address, "ann") as ann:
            ann.pull()
            ann.push(GOOD)
        run.wait()
    folder = folder_of(run)
    for words in (["pause", folder], ["resume", folder], ["evict", folder, "ann"]):
        told = command(*words)
        assert told.exit_code == 78
        assert told.stderr == f"error: {folder}: the run has ended: 1 updates\n"
    assert command("snapshot", folder).exit_code == 0
    nowhere = tmp_path / "nowhere"
    told = command("pause", nowhere)
    assert told.stderr == f"error: {nowhere}: no journal here\n"
    told = command("pause", "127.0.0.1:1")
    assert told.exit_code == 69
    assert "127.0.0.1:1 does not answer" in told.stderr
    assert len(told.stderr.splitlines()) == 1


def test_nobody_operates_over_the_network_without_a_certificate(
    server: Served,
) -> None:
    with Peer(server.address, "eve") as eve:
        with refused("PERMISSION_DENIED", "certificate of the organizational unit"):
            eve.stub.operate(pb.OperateRequest(act=pb.ACT_PAUSE), timeout=CALL)
        assert server.state.paused is None
    told = command("pause", server.address)
    assert told.exit_code == 77
    assert len(told.stderr.splitlines()) == 1


def test_an_operators_certificate_acts_from_afar(
    tmp_path: Path,
    trusted: Certificates,  # noqa: F811
) -> None:
    files = trusted.issue("127.0.0.1")
    section = encrypted(files, client_ca=trusted.ca)
    config = settings(tmp_path, server=section)
    with Served(tmp_path, config) as server:
        pause = pb.OperateRequest(act=pb.ACT_PAUSE)
        with pytest.raises(RefusedError, match="certificate of the organizational"):
            operate(server.address, pause, ca=trusted.ca, **trusted.issue("device"))
        chief = trusted.issue("chief", "operator")
        operate(server.address, pause, ca=trusted.ca, **chief)
        assert server.state.paused == ""
        [line] = server.lines("paused")
        assert line["by"] == "chief"  # whatever the command said


@pytest.mark.parametrize(
    ("act", "name", "sentence"),
    [(99, "", "knows no act 99"), (pb.ACT_EVICT, "x" * 257, "a name of 257 char")],
)
def test_an_act_of_nonsense_is_refused(
    server: Served, act: int, name: str, sentence: str
) -> None:
    address = parse_address(server.operator_socket)
    with address.channel() as channel, refused("INVALID_ARGUMENT", sentence):
        request = pb.OperateRequest(act=act, name=name)  # type: ignore[arg-type]
        Stub(channel).operate(request, timeout=CALL)


def test_settings_may_change_while_a_run_is_paused(tmp_path: Path) -> None:
    run = Served(tmp_path, settings(tmp_path))
    with run:
        command("pause", folder_of(run))
    other = settings(tmp_path, evaluate={"every_versions": 3})
    again = open_run(other, time.time())
    assert again.coordinator.state.paused == ""
    again.journal.close()


@pytest.mark.parametrize("error", [KeyError, OSError])
def test_an_operator_without_a_name_is_known_by_its_number(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nameless() -> str:
        raise error("no such user")

    monkeypatch.setattr("getpass.getuser", nameless)
    assert this_operator() == f"uid {os.getuid()}"
