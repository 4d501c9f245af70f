"""Certificates of a throw-away authority: who is trusted, and under which name."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from fedwire.connect import Address, explain, parse_address
from fedwire.keys import cid_of
from fedwire.service import Stub
from fedwire.v1 import federation_pb2 as pb

from fedcore.errors import ConfigError, LatecomerError, RefusedError
from fedrun.cli.exit_codes import exit_code
from fedserver.operator.health import ask_health
from fedserver.operator.remote import ask_status
from tests.peer import CALL, Peer, key_of
from tests.served import Served, served, settings


class Certificates:
    """An authority, and files with certificates of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = trustme.CA()
        self.ca = folder / "ca.pem"
        self._authority.cert_pem.write_to_path(str(self.ca))

    def issue(self, name: str, unit: str | None = None) -> dict[str, Path]:
        """A certificate for a name and an organizational unit, and its key."""
        issued = self._authority.issue_cert(name, organization_unit_name=unit)
        paths = {
            "certificate": self._folder / f"{name}.pem",
            "key": self._folder / f"{name}.key",
        }
        issued.cert_chain_pems[0].write_to_path(str(paths["certificate"]))
        issued.private_key_pem.write_to_path(str(paths["key"]))
        return paths


@pytest.fixture
def trusted(tmp_path: Path) -> Certificates:
    """The authority that everybody knows."""
    return Certificates(tmp_path)


@pytest.fixture
def stranger(tmp_path: Path) -> Certificates:
    """Another one."""
    folder = tmp_path / "stranger"
    folder.mkdir()
    return Certificates(folder)


def encrypted(files: dict[str, Path], **more: Path) -> dict[str, Any]:
    """A server's section of the config."""
    return {"tls": {name: str(path) for name, path in {**files, **more}.items()}}


def enrolled_as(address: Address, cid: str = "claimed") -> str:
    """The name under which a server knows whoever connects like this."""
    with address.channel() as channel:
        peer = Peer("127.0.0.1:1", cid)
        peer.stub = Stub(channel)
        try:
            return peer.enrol(name="claimed").name
        except grpc.RpcError as error:
            raise explain(error, address) from error
        finally:
            peer.channel.close()


def refusal(call: Callable[[], Any]) -> LatecomerError:
    """How a call is refused."""
    with pytest.raises(RefusedError) as caught:
        call()
    assert exit_code(caught.value) == 77
    return caught.value


def test_a_server_with_a_certificate_is_asked_through_tls(
    tmp_path: Path, trusted: Certificates
) -> None:
    with served(tmp_path, server=encrypted(trusted.issue("localhost"))) as server:
        _, _, port = server.address.rpartition(":")
        assert ask_health(f"localhost:{port}", ca=trusted.ca) == "serving"
        assert ask_status(f"localhost:{port}", ca=trusted.ca)["version"] == 0


def test_a_server_of_another_authority_is_not_trusted(
    tmp_path: Path, trusted: Certificates, stranger: Certificates
) -> None:
    with served(tmp_path, server=encrypted(trusted.issue("localhost"))) as server:
        _, _, port = server.address.rpartition(":")
        error = refusal(lambda: ask_health(f"localhost:{port}", ca=stranger.ca))
        assert "the server's certificate is not trusted here" in str(error)


def test_a_server_of_another_name_is_not_trusted(
    tmp_path: Path, trusted: Certificates
) -> None:
    with served(tmp_path, server=encrypted(trusted.issue("elsewhere.org"))) as server:
        _, _, port = server.address.rpartition(":")
        refusal(lambda: ask_health(f"localhost:{port}", ca=trusted.ca))


def test_a_name_in_a_certificate_wins(tmp_path: Path, trusted: Certificates) -> None:
    section = encrypted(trusted.issue("localhost"), client_ca=trusted.ca)
    with served(tmp_path, server=section) as server:
        _, _, port = server.address.rpartition(":")
        client = trusted.issue("device-7")
        address = parse_address(f"localhost:{port}", ca=trusted.ca, **client)
        assert enrolled_as(address) == "device-7"
        assert [row.name for row in server.state.clients.values()] == ["device-7"]


def test_nobody_speaks_for_the_client_of_another_certificate(
    tmp_path: Path, trusted: Certificates
) -> None:
    section = encrypted(trusted.issue("localhost"), client_ca=trusted.ca)
    with served(tmp_path, server=section) as server:
        _, _, port = server.address.rpartition(":")
        mine, other = (
            parse_address(f"localhost:{port}", ca=trusted.ca, **trusted.issue(name))
            for name in ("device-7", "device-8")
        )
        enrolled_as(mine, "cid-7")
        error = refusal(lambda: enrolled_as(other, "cid-7"))
        assert "the certificate belongs to 'device-8'" in str(error)
        request = pb.LeaveRequest(key=key_of("cid-7"))
        with other.channel() as channel, pytest.raises(grpc.RpcError) as caught:
            Stub(channel).leave(request, timeout=CALL)
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert not server.state.clients[cid_of(key_of("cid-7"))].left


@contextmanager
def closed(folder: Path, trusted: Certificates, **more: Any) -> Iterator[Served]:
    """A server that wants certificates."""
    tls = encrypted(trusted.issue("localhost"), client_ca=trusted.ca)["tls"] | more
    section = {"listen": "localhost:0", "journal": str(folder / "run"), "tls": tls}
    with served(folder, server=section) as server:
        yield server


@contextmanager
def shown(
    server: Served, trusted: Certificates, files: dict[str, Path], name: str
) -> Iterator[Peer]:
    """A client that shows a certificate, with keys of its own."""
    address = parse_address(server.address, ca=trusted.ca, **files)
    peer = Peer("127.0.0.1:1", name)
    peer.channel.close()
    with address.channel() as peer.channel:
        peer.stub = Stub(peer.channel)
        yield peer


def test_one_certificate_is_one_client(tmp_path: Path, trusted: Certificates) -> None:
    files = trusted.issue("device-7")
    with (
        closed(tmp_path, trusted) as server,
        shown(server, trusted, files, "one") as one,
        shown(server, trusted, files, "two") as two,
    ):
        one.enrol()
        assert one.pull().task == pb.TASK_KIND_TRAIN
        assert two.enrol().name == "device-7"
        assert one.pull().refused == pb.ANSWER_UNKNOWN
        assert two.pull().task == pb.TASK_KIND_TRAIN
        assert one.enrol().name == "device-7"  # it would take turns, never more
        assert two.pull().refused == pb.ANSWER_UNKNOWN


def test_a_certificate_may_be_shared_if_the_operator_says_so(
    tmp_path: Path, trusted: Certificates
) -> None:
    files = trusted.issue("fleet")
    with (
        closed(tmp_path, trusted, share_certificates=True) as server,
        shown(server, trusted, files, "one") as one,
        shown(server, trusted, files, "two") as two,
    ):
        assert [peer.enrol().name for peer in (one, two)] == ["one", "two"]
        assert not one.pull().refused
        assert not two.pull().refused
        with pytest.raises(grpc.RpcError) as caught:
            two.enrol(name="one")
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION


def test_a_certificate_says_who_evaluates(
    tmp_path: Path, trusted: Certificates
) -> None:
    judge, plain = trusted.issue("judge", "evaluator"), trusted.issue("device-7")
    with (
        closed(tmp_path, trusted) as server,
        shown(server, trusted, judge, "one") as one,
        shown(server, trusted, plain, "two") as two,
    ):
        assert one.enrol(role=pb.ROLE_EVALUATOR).name == "judge"
        with pytest.raises(grpc.RpcError) as caught:
            two.enrol(role=pb.ROLE_EVALUATOR)
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED


def test_a_certificate_says_who_reads_the_status(
    tmp_path: Path, trusted: Certificates
) -> None:
    operator, plain = trusted.issue("boss", "operator"), trusted.issue("device-7")
    with closed(tmp_path, trusted) as server:
        told = ask_status(server.address, ca=trusted.ca, **operator)
        assert told["version"] == 0
        error = refusal(lambda: ask_status(server.address, ca=trusted.ca, **plain))
        assert "the status is for operators" in str(error)
        assert ask_status(server.operator_socket)["version"] == 0


def test_an_upload_is_resumed_by_its_owner_alone(
    tmp_path: Path, trusted: Certificates
) -> None:
    mine, other = trusted.issue("device-7"), trusted.issue("device-8")
    with (
        closed(tmp_path, trusted) as server,
        shown(server, trusted, mine, "one") as one,
        shown(server, trusted, other, "two") as two,
    ):
        one.enrol()
        with pytest.raises(grpc.RpcError) as caught:
            two.stub.resume(pb.ResumeRequest(key=one.key, seq=1), timeout=CALL)
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize("shown", ["nothing", "a stranger's"])
def test_a_client_without_the_right_certificate_is_refused(
    tmp_path: Path, trusted: Certificates, stranger: Certificates, shown: str
) -> None:
    section = encrypted(trusted.issue("localhost"), client_ca=trusted.ca)
    pair = {"nothing": {}, "a stranger's": stranger.issue("device-7")}[shown]
    with served(tmp_path, server=section) as server:
        _, _, port = server.address.rpartition(":")
        address = parse_address(f"localhost:{port}", ca=trusted.ca, **pair)
        with address.channel() as channel, pytest.raises(grpc.RpcError) as caught:
            Stub(channel).status(pb.StatusRequest(), timeout=CALL)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert not server.state.clients


def test_plain_text_does_not_leave_this_machine_by_itself(tmp_path: Path) -> None:
    for listen in ("0.0.0.0:8443", "[::]:8443", "10.1.2.3:8443"):
        with pytest.raises(ConfigError, match="set tls, or plaintext: true"):
            settings(tmp_path, server={"listen": listen})
        settings(tmp_path, server={"listen": listen, "plaintext": True})


def test_another_machine_is_asked_in_plain_text_only_if_told_so(
    tmp_path: Path,
) -> None:
    section = {"listen": "0.0.0.0:0", "plaintext": True}
    with served(tmp_path, server=section) as server:
        _, _, port = server.address.rpartition(":")
        elsewhere = f"{own_address()}:{port}"
        error = refusal(lambda: ask_health(elsewhere))
        assert "does not speak TLS; give --plaintext" in str(error)
        assert ask_health(elsewhere, plaintext=True) == "serving"


def test_a_certificate_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = {"certificate": tmp_path / "no.pem", "key": tmp_path / "no.key"}
    with (
        pytest.raises(ConfigError, match=r"server\.tls: .*no\.key: No such file") as e,
        served(tmp_path, server=encrypted(missing)),
    ):
        pass
    assert exit_code(e.value) == 78


def test_a_certificate_that_is_none_is_a_mistake_in_the_config(
    tmp_path: Path, trusted: Certificates
) -> None:
    pair = trusted.issue("localhost")
    pair["certificate"].write_text("no certificate")
    with (
        pytest.raises(ConfigError, match=r"server\.tls"),
        served(tmp_path, server=encrypted(pair)),
    ):
        pass


def own_address() -> str:
    """An address of this machine under which others would reach it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            return "0.0.0.0"  # no network: for a client, this is not loopback either
        return str(probe.getsockname()[0])
