"""Names of clients, as their operator sees them: one is given back to everybody."""

import time
from pathlib import Path

import grpc
from fedwire.connect import explained, parse_address
from fedwire.service import Stub
from fedwire.v1 import federation_pb2 as pb

from fedcore.errors import UnavailableError
from fedrun.run import free_name
from fedserver.listening import DOOR

_PATIENCE = 10.0  # seconds


def free(run: Path, name: str) -> bool:
    """Lets a name go, by the server that has the run or in its journal.

    Returns:
        Whether it had been taken.

    Raises:
        JournalError: there is no run, or its server cannot be reached.
    """
    try:
        return _by_the_door(run / DOOR, name)
    except (OSError, UnavailableError):  # no server: one that was killed left its file
        return free_name(run, name, time.time())


def _by_the_door(told: Path, name: str) -> bool:
    address = parse_address(told.read_text(encoding="utf-8"))
    with address.channel() as channel:
        request = pb.FreeRequest(name=name)
        try:
            return bool(Stub(channel).free(request, timeout=_PATIENCE).was_taken)
        except grpc.RpcError as error:
            raise explained(error, address) from error
