"""Who a client is, whose a name is, and who may do more than train."""

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from click.testing import CliRunner
from fedwire.keys import KEY_BYTES, cid_of, owner_of
from fedwire.v1 import federation_pb2 as pb

from fedcore.errors import ProtocolError
from fedserver.calls.callers import Gate, Sessions, roles
from fedserver.calls.enrolment import Codes
from fedserver.cli import main
from fedserver.view.progress import Progress
from fedserver.view.status import status_json
from tests.fedserver.honest import refused, still_serves
from tests.peer import CALL, Peer, key_of, packed
from tests.served import Served, ones, served, settings, until

GOOD = packed(ones())
MINE = "belongs to another client; choose another --name, or the operator frees it with"


def owner_key(peer: Peer, other: Peer) -> Peer:
    """The first one is the same device as the other, under another id."""
    peer.owner = other.owner
    return peer


def report(peer: Peer, **values: float) -> None:
    """Tells what it has measured."""
    model = pb.ModelName(epoch=peer.epoch, version=peer.version)
    request = pb.ReportRequest(key=peer.key, model=model, values=values)
    peer.stub.report(request, timeout=CALL)


# ----------------------------------------------------------------------------- keys


def test_an_id_follows_from_a_key_and_tells_nothing_of_it() -> None:
    key = bytes(range(KEY_BYTES))
    assert cid_of(key) == cid_of(key) != cid_of(bytes(KEY_BYTES))
    assert cid_of(key) != owner_of(key)
    assert len(cid_of(key)) == 32
    assert key.hex() not in cid_of(key)


@pytest.mark.parametrize("length", [0, 15, 17, 32])
def test_a_key_of_another_length_is_none(length: int) -> None:
    with pytest.raises(ProtocolError, match=f"has 16 bytes, got {length}"):
        cid_of(bytes(length))


CALLS: list[Callable[[Peer, bytes], Any]] = [
    lambda peer, key: peer.enrol(key=key),
    lambda peer, key: peer.pull(key=key),
    lambda peer, key: peer.push(GOOD, key=key),
    lambda peer, key: peer.stub.resume(pb.ResumeRequest(key=key), timeout=CALL),
    lambda peer, key: peer.stub.report(pb.ReportRequest(key=key), timeout=CALL),
    lambda peer, key: peer.stub.leave(pb.LeaveRequest(key=key), timeout=CALL),
    lambda peer, key: list(peer.stub.attend(iter([pb.Beat(key=key, session=1)]))),
]
NAMES = ["enrol", "pull", "push", "resume", "report", "leave", "attend"]


@pytest.mark.parametrize("call", CALLS, ids=NAMES)
def test_an_id_is_no_key(server: Served, call: Callable[[Peer, bytes], Any]) -> None:
    with Peer(server.address) as peer:
        for claim in (peer.cid.encode(), bytes.fromhex(peer.cid)[:15], b""):
            with refused("INVALID_ARGUMENT", "a client's key has 16 bytes"):
                call(peer, claim)
    still_serves(server)


def test_what_status_and_journal_show_gives_no_power(server: Served) -> None:
    with Peer(server.address, "ann") as ann, Peer(server.address, "eve") as eve:
        ann.pull()
        shown = bytes.fromhex(ann.cid)  # as long as a key
        eve.stub.leave(pb.LeaveRequest(key=shown), timeout=CALL)
        assert eve.push(GOOD, key=shown, seq=2**64 - 1).answer == pb.ANSWER_UNKNOWN
        assert not server.state.clients[ann.cid].left
        assert ann.push(GOOD).answer == pb.ANSWER_ACCEPTED


# ---------------------------------------------------------------------------- names


def test_a_name_belongs_to_whoever_took_it_first(server: Served) -> None:
    eve = Peer(server.address, "eve")
    with Peer(server.address, "ann") as ann:
        with refused("FAILED_PRECONDITION", f"the name 'ann' {MINE}"):
            eve.enrol(name="ann")
        ann.pull()
        assert ann.push(GOOD).answer == pb.ANSWER_ACCEPTED
        assert eve.pull().refused == pb.ANSWER_UNKNOWN
    eve.channel.close()
    assert [row.name for row in server.state.clients.values()] == ["ann"]


def test_of_many_who_want_a_name_at_once_one_gets_it(server: Served) -> None:
    peers = [Peer(server.address, f"peer {number}") for number in range(16)]

    def enrol(peer: Peer) -> bool:
        try:
            peer.enrol(name="ann")
        except grpc.RpcError:
            return False
        return True

    with ThreadPoolExecutor(len(peers)) as pool:
        won = list(pool.map(enrol, peers))
    assert sum(won) == 1
    assert len(server.state.clients) == 1
    for peer in peers:
        peer.channel.close()


def test_an_unnamed_client_keeps_its_id_as_its_name(server: Served) -> None:
    with Peer(server.address, "ann") as ann, Peer(server.address, "eve") as eve:
        ann.owner = key_of("another")
        assert ann.enrol(name="").name == ann.cid
        with refused("FAILED_PRECONDITION", MINE):
            eve.enrol(name=ann.cid)


def test_a_device_that_begins_anew_keeps_its_name(server: Served) -> None:
    with Peer(server.address, "old") as old:
        old.enrol(name="ann")
        old.pull()
        new = owner_key(Peer(server.address, "new"), old)
        assert new.enrol(name="ann").name == "ann"
        assert old.pull().refused == pb.ANSWER_UNKNOWN  # never two at once
        assert old.push(GOOD).answer == pb.ANSWER_UNKNOWN
        new.pull()
        assert new.push(GOOD).answer == pb.ANSWER_ACCEPTED
        new.channel.close()


def test_a_name_is_kept_over_restarts_with_and_without_a_snapshot(
    tmp_path: Path,
) -> None:
    run = Served(tmp_path, settings(tmp_path, journal={"snapshot_records": 2}))
    with run, Peer(run.address, "ann") as ann:
        ann.pull()
        ann.push(GOOD)
    for _ in range(2):
        with run:
            eve = Peer(run.address, "eve")
            with refused("FAILED_PRECONDITION", MINE):
                eve.enrol(name="ann")
            eve.channel.close()


def test_the_operator_frees_a_name_while_the_run_is_served(
    server: Served, tmp_path: Path
) -> None:
    folder = str(server.config.server.journal)
    with Peer(server.address, "ann") as ann, Peer(server.address, "eve") as eve:
        asked = CliRunner().invoke(main, ["free", folder, "ann"])
        assert (asked.exit_code, asked.stdout) == (0, "the name 'ann' is free\n")
        eve.enrol(name="ann")
        assert ann.pull().refused == pb.ANSWER_UNKNOWN
        with refused("FAILED_PRECONDITION", MINE):
            ann.enrol()
    assert [line["name"] for line in server.lines("freed")] == ["ann"]


def test_the_operator_frees_a_name_while_nobody_serves_the_run(tmp_path: Path) -> None:
    run = Served(tmp_path, settings(tmp_path))
    with run, Peer(run.address, "ann"):
        pass
    folder = str(run.config.server.journal)
    assert CliRunner().invoke(main, ["free", folder, "ann"]).exit_code == 0
    again = CliRunner().invoke(main, ["free", folder, "ann"])
    assert again.exit_code == 78
    assert "no client has the name 'ann'" in again.stderr
    with run, Peer(run.address, "eve") as eve:
        assert eve.enrol(name="ann").name == "ann"


def test_nobody_frees_a_name_over_the_network(server: Served) -> None:
    with Peer(server.address, "ann"), Peer(server.address, "eve") as eve:
        with refused("PERMISSION_DENIED", "fedserver free RUN CLIENT"):
            eve.stub.free(pb.FreeRequest(name="ann"), timeout=CALL)
        assert "ann" in server.state.roster.owners


# ----------------------------------------------------------------------- evaluators

WINS: dict[str, Any] = {"stop": {"target": {"accuracy": 0.9}}}


def test_an_evaluator_that_nobody_appointed_is_refused(tmp_path: Path) -> None:
    with served(tmp_path, **WINS) as server, Peer(server.address, "eve") as eve:
        with refused("PERMISSION_DENIED", "(evaluate.evaluators: [eve])"):
            eve.enrol(role=pb.ROLE_EVALUATOR)
        eve.pull()
        report(eve, accuracy=1.0)  # as a trainer: its own affair
        assert server.state.closed is None
        still_serves(server)


def test_an_evaluator_whom_the_operator_named_ends_a_run(tmp_path: Path) -> None:
    named: dict[str, Any] = {"evaluate": {"evaluators": ["judge"]}}
    with served(tmp_path, **WINS, **named) as server:
        judge = Peer(server.address, "judge")
        judge.enrol(role=pb.ROLE_EVALUATOR)
        judge.pull()
        report(judge, accuracy=0.95)
        assert server.state.closed == "target reached"
        judge.channel.close()


def test_who_comes_by_the_door_evaluates_and_takes_its_name(tmp_path: Path) -> None:
    with served(tmp_path, **WINS) as server, Peer(server.address, "eve") as eve:
        eve.enrol(name="evaluator (server)")
        own = Peer(server.operator_socket, "own")
        own.enrol(name="evaluator (server)", role=pb.ROLE_EVALUATOR)
        own.pull()
        with refused("FAILED_PRECONDITION", MINE):
            eve.enrol(name="evaluator (server)")
        report(own, accuracy=0.95)
        assert server.state.closed == "target reached"
        own.channel.close()


def test_an_evaluator_of_before_is_asked_again_after_a_restart(tmp_path: Path) -> None:
    config = settings(tmp_path, **WINS, evaluate={"evaluators": ["judge"]})
    with Served(tmp_path, config) as first:
        judge = Peer(first.address, "judge")
        judge.enrol(role=pb.ROLE_EVALUATOR)
        judge.channel.close()
    with served(tmp_path, **WINS) as second:  # it is not named any more
        again = Peer(second.address, "judge")
        again.epoch = judge.epoch
        report(again, accuracy=1.0)
        with refused("PERMISSION_DENIED", "may not evaluate"):
            again.enrol(role=pb.ROLE_EVALUATOR)
        assert second.state.closed is None
        again.channel.close()


# --------------------------------------------------------------------------- limits


def test_a_run_takes_so_many_clients_and_no_more(tmp_path: Path) -> None:
    with (
        served(tmp_path, server={"max_clients": 2}) as server,
        Peer(server.address, "ann") as ann,
        Peer(server.address, "bob"),
    ):
        eve = Peer(server.address, "eve")
        with refused("RESOURCE_EXHAUSTED", "all the 2 clients that it takes"):
            eve.enrol()
        with refused("RESOURCE_EXHAUSTED", "all the 2 clients that it takes"):
            ann.enrol(name="one more name")
        assert ann.enrol().name == "ann"
        eve.channel.close()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({f"metric {n}": 0.0 for n in range(65)}, "65 metrics, the limit is 64"),
        ({"x" * 65: 0.0}, "a metric's name of 65 characters, the limit is 64"),
        ({"": math.inf}, "a metric's name is ''; expected printable text"),
        ({" ": 0.0}, "a metric's name is ' '; expected printable text"),
        ({"\x1b[31mred": 0.0}, r"printable text, got '\x1b[31mred'"),
    ],
)
def test_a_report_has_limits(
    server: Served, values: dict[str, float], words: str
) -> None:
    with Peer(server.address) as peer, refused("INVALID_ARGUMENT", words):
        report(peer, **values)
    assert server.lines("evaluated") == []


@pytest.mark.parametrize("field", ["name", "code", "run_id"])
@pytest.mark.parametrize("text", ["a\x1b[2Jb", "a\nb", "a\x9bb", "\u202eb", "\x00"])
def test_control_characters_do_not_come_in(
    server: Served, field: str, text: str
) -> None:
    peer = Peer(server.address)
    with refused("INVALID_ARGUMENT", f"a {field} must be printable text"):
        peer.enrol(**{field: text})
    peer.channel.close()


def test_an_error_has_lines_and_no_control_characters(server: Served) -> None:
    with Peer(server.address) as peer:
        fine = pb.ReportRequest(key=peer.key, error="Traceback:\n\tline 1\n")
        peer.stub.report(fine, timeout=CALL)
        ugly = pb.ReportRequest(key=peer.key, error="\x1b[2J")
        with refused("INVALID_ARGUMENT", "printable text in lines"):
            peer.stub.report(ugly, timeout=CALL)


# ------------------------------------------------------------------- who is calling


def calling(peer: str, **auth: bytes) -> Any:
    """What gRPC tells of a call."""
    shown = {key: [value] for key, value in auth.items()}
    return SimpleNamespace(peer=lambda: peer, auth_context=lambda: shown)


@pytest.mark.parametrize(
    ("subject", "units"),
    [
        (rb"CN=eva,OU=evaluator,O=us", {"evaluator"}),
        (rb"CN=x,OU=a+OU=operator", {"a", "operator"}),
        (
            rb"CN=a\,OU=operator\+OU=x,OU=eva\"lu\\\,OU=operator",
            {r"eva\"lu\\\,OU=operator"},
        ),
        (rb"O=org\0AOU=operator,CN=x", set()),
        (b"", set()),
    ],
)
def test_a_role_is_an_organizational_unit(subject: bytes, units: set[str]) -> None:
    assert roles(calling("ipv4:1.2.3.4:5", x509_subject=subject)) == units


@pytest.mark.parametrize(
    ("peer", "is_operator"),
    [
        ("ipv4:127.0.0.1:5000", True),
        ("ipv6:%5B::1%5D:5000", True),
        ("ipv6:%5B::ffff:127.0.0.1%5D:5000", True),
        ("unix:", True),
        ("ipv4:10.0.0.1:5000", False),
        ("ipv6:%5Bfe80::1%25eth0%5D:5000", False),
        ("", False),
    ],
)
def test_all_of_the_status_is_for_callers_on_this_machine(
    tmp_path: Path, peer: str, is_operator: bool
) -> None:
    assert Gate(settings(tmp_path)).is_operator(calling(peer)) is is_operator


def test_new_clients_are_let_in_at_a_rate(tmp_path: Path) -> None:
    with served(tmp_path, server={"max_enrolments": 10}) as server:
        peers = [Peer(server.address, f"peer {number}") for number in range(20)]
        began = time.monotonic()
        for peer in peers:
            peer.enrol()
        took = time.monotonic() - began
        assert took > 0.9  # ten were saved up
        again = []
        for _ in range(3):  # other programs may hold one of them up
            began = time.monotonic()
            for peer in peers:
                peer.enrol()  # it is known, and waits for nobody
            again.append(time.monotonic() - began)
        assert min(again) < took
        for peer in peers:
            peer.channel.close()


def test_a_status_of_many_clients_is_made_once_a_second(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedserver.view.status.MOST_LISTED", 1)
    made = []

    def counted(progress: Progress) -> Any:
        made.append(1)
        return status_json(progress)

    monkeypatch.setattr("fedserver.view.status.status_json", counted)
    with Peer(server.address, "ann") as ann, Peer(server.address, "bob"):
        began = time.monotonic()
        for _ in range(20):
            ann.stub.status(pb.StatusRequest(), timeout=CALL)
        took = time.monotonic() - began
    assert len(made) <= took + 2


def test_who_was_silent_is_found_without_a_look_at_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr("fedserver.calls.callers.time.monotonic", lambda: now[0])
    sessions = Sessions(lost_after=5.0)
    for cid in ("ann", "bob", "eve"):
        sessions.hear(cid)
    now[0] += 6
    sessions.hear("ann")
    assert sessions.missing() == ["bob", "eve"]
    assert sessions.missing() == []
    assert sessions.present == {"ann"}


# ----------------------------------------------------------------------- their data


def test_a_client_that_is_long_gone_does_not_share_its_part_of_the_data(
    tmp_path: Path,
) -> None:
    with served(tmp_path, timeouts={"lost": 0.3, "heartbeat": 0.1}) as server:
        with Peer(server.address, "ann") as ann:
            ann.enrol(index=0, count=2)
        until(lambda: not server.server._sessions.present, "ann is lost")
        with Peer(server.address, "bob") as bob:
            assert bob.enrol(index=0, count=2).warning == ""


def test_two_clients_with_the_same_part_of_the_data_are_named_once(
    server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    with Peer(server.address, "ann") as ann, Peer(server.address, "bob") as bob:
        assert ann.enrol(index=0, count=2).warning == ""
        said = bob.enrol(index=0, count=2).warning
        assert said.startswith("another client of this run has index 0 of count 2, too")
        assert "give each client an --index of its own" in said
        assert "ann" not in said  # names are the operator's
        bob.enrol(index=0, count=2)
        (told,) = (r for r in caplog.messages if "joined with" in r)
        assert told.startswith("ann and bob joined with index 0 of count 2: ")
        assert bob.enrol(index=1, count=2).warning == ""  # it mends it
        assert ann.enrol(index=0, count=2).warning == ""


def test_a_client_that_comes_again_or_begins_anew_is_no_double(
    server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    with Peer(server.address, "ann") as ann, Peer(server.address, "ann") as anew:
        ann.enrol(index=0, count=2)
        assert ann.enrol(index=0, count=2).warning == ""
        owner_key(anew, ann)
        assert anew.enrol(index=0, count=2).warning == ""
    assert not [text for text in caplog.messages if "joined with" in text]


def test_clients_with_data_of_their_own_are_no_doubles(server: Served) -> None:
    with Peer(server.address, "ann") as ann, Peer(server.address, "bob") as bob:
        assert ann.enrol().warning == bob.enrol().warning == ""


# ------------------------------------------------------------------ the app's code


def test_a_client_whose_code_nobody_else_has_is_told_so() -> None:
    codes = Codes()
    assert codes.compare("ann", "1" * 8) == ""  # the first one
    assert codes.difference("ann", "2" * 8) == ""  # and the only one
    assert codes.compare("bob", "1" * 8) == ""
    assert "the app's code 22222222 differs" in codes.compare("eve", "2" * 8)
    assert codes.compare("dan", "2" * 8) == ""  # as eve's
    assert codes.compare("ann", "") == ""  # it does not say any more
    assert codes.difference("ann", "1" * 8) == ""  # as bob's
    assert codes.difference("ann", "") == ""


def test_a_client_with_newer_code_is_compared_with_others_and_not_with_itself() -> None:
    codes = Codes()
    assert codes.compare("ann", "1" * 8) == ""
    assert codes.compare("ann", "2" * 8) == ""
    assert codes.compare("bob", "2" * 8) == ""
    assert "differs" in codes.compare("bob", "1" * 8)
    assert codes.difference("bob", "3" * 8) != ""
    assert codes.difference("bob", "1" * 8) != ""  # it has that itself, and nobody else
