"""Asks a running server for its status, or for what its operator wants."""

import errno
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from fedwire.connect import SOCKET, Address, explaining, parse_address
from fedwire.service import Stub
from fedwire.v1 import federation_pb2 as pb

from fedcore.errors import ConfigError, JournalError, ProtocolError, UnavailableError
from fedcore.typing import JSON
from fedrun.journal import exists
from fedrun.json_text import read_json
from fedrun.lock import is_locked
from fedrun.plain_files import read_plain
from fedrun.run import Done, free_name
from fedrun.run import operate as operate_unserved
from fedserver.calls.acts import event_of, this_operator
from fedserver.calls.listening import OPERATOR_FILE

Reply = TypeVar("Reply")
_MOST_ADDRESS = 4096  # bytes of a note with an address
_PATIENCE, _FREE_SECONDS, _ACT_SECONDS = 5.0, 10.0, 60.0  # seconds


def ask_status(target: str, **trust: Any) -> JSON:
    """Returns the status of a run, as :func:`fedserver.view.status.status_json`.

    Args:
        target: RUN, the folder of a run that is served, or HOST.
        trust: how a HOST is trusted.

    Raises:
        JournalError: there is no run, or no server has it.
        UnavailableError: the server does not answer.
        RefusedError: the server wants another certificate.
    """

    def unserved(folder: Path) -> JSON:
        raise JournalError(
            f"{folder}: no server has this run; fedserver report {folder} tells how it "
            f"stands, and fedserver journal show {folder} prints its records"
        )

    return _at(target, _status, unserved, **trust)


def _status(address: Address) -> JSON:
    with address.channel() as channel, explaining(address):
        reply = Stub(channel).status(pb.StatusRequest(), timeout=_PATIENCE)
    try:
        told = read_json(reply.json)
    except ValueError as error:
        raise ProtocolError(f"{address} tells no status: {error}") from error
    if not isinstance(told, dict):
        raise ProtocolError(f"{address} tells no status")
    return told


def free(run: Path, name: str) -> bool:
    """Frees a name, through the run's server or in its journal if none runs.

    Returns:
        Whether a client had the name.

    Raises:
        JournalError: there is no run, or its server cannot be reached.
    """
    try:
        return _by_server(run / OPERATOR_FILE, name)
    except (OSError, UnavailableError):  # no server, or one that was killed
        return free_name(run, name, time.time())


def _by_server(note: Path, name: str) -> bool:
    address = _socket_in(note)
    with address.channel() as channel:
        request = pb.FreeRequest(name=name)
        with explaining(address):
            return bool(Stub(channel).free(request, timeout=_FREE_SECONDS).was_taken)


def _socket_in(note: Path) -> Address:
    """Returns the address of a socket that a server has noted in the folder of its run.

    Raises:
        OSError: there is no note, or it says something else.
    """
    text = read_plain(note, _MOST_ADDRESS, links=False).decode(errors="replace")
    if not text.startswith(SOCKET):
        raise OSError(errno.EINVAL, "names no socket", str(note))
    return parse_address(text)


def operate(target: str, request: pb.OperateRequest, **trust: Any) -> Done:
    """Carries out an act in the run of a folder, served or not, or at a server.

    Args:
        target: RUN, a folder, or HOST.
        request: the act; who the operator is is added.
        trust: how a HOST is trusted.

    Raises:
        ConfigError: the act cannot be done; the message says why.
        JournalError: there is no run.
        UnavailableError: the server does not answer.
        RefusedError: the server wants another certificate.
    """
    request.by = this_operator()

    def unserved(folder: Path) -> Done:
        act = event_of(request, time.time())
        assert act is not None
        return operate_unserved(folder, act)

    return _at(target, lambda at: _operate(target, at, request), unserved, **trust)


def _operate(target: str, address: Address, request: pb.OperateRequest) -> Done:
    with address.channel() as channel, explaining(address):
        reply = Stub(channel).operate(request, timeout=_ACT_SECONDS)
    if reply.objection:
        raise ConfigError(f"{target}: {reply.objection}")
    return Done(reply.version, Path(reply.snapshot) if reply.snapshot else None)


def _at(
    target: str,
    call: Callable[[Address], Reply],
    unserved: Callable[[Path], Reply],
    **trust: Any,
) -> Reply:
    """Calls the server of a run.

    Args:
        target: RUN, a folder, or HOST.
        call: the server at an address; for a folder its operator's socket.
        unserved: what to do with the folder of a run that no server has.
        trust: how a HOST is trusted.

    Raises:
        JournalError: there is no run in the folder.
        UnavailableError: the server does not answer.
    """
    folder = Path(target)
    if target.startswith(SOCKET) or not exists(folder):
        if not target.startswith(SOCKET) and (folder.is_dir() or folder.parent.name):
            raise JournalError(f"{folder}: no journal here")
        try:
            return call(parse_address(target, **trust))
        except UnavailableError as error:
            raise UnavailableError(
                f"{error}; and {target} is no run's folder"
            ) from None
    try:
        return call(_socket_in(folder / OPERATOR_FILE))
    except (OSError, UnavailableError) as error:  # no server, or one that was killed
        if isinstance(error, UnavailableError) and is_locked(folder):
            raise  # its disk fails, or it is about to stop
        return unserved(folder)
