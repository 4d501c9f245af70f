"""Checks the caller and the disk, with which every call of the service begins."""

from dataclasses import dataclass
from typing import Any

import grpc
from fedwire.keys import cid_of

from fedcore.errors import ProtocolError
from fedcore.text import is_printable, printable
from fedrun.json_lines import concern
from fedrun.run import Run
from fedrun.tracing import Tracer
from fedserver.answers import Answers
from fedserver.core import Core
from fedserver.identity import Gate
from fedserver.sessions import Sessions
from fedserver.tracing import VersionSpans

LONG_NAME = 256  # characters of a client's name: the server keeps them
Context = Any


class Callers:
    """The clients of one run, as this process knows them.

    Attributes:
        enrolled: ids of the clients that this process has told its settings. A restart
            may have changed the settings, so clients enrol anew with each process.
        draining: whether the process is about to stop, and takes nothing new.
    """

    def __init__(self, run: Run, core: Core, tracer: Tracer) -> None:
        self._run, self._core, self._tracer = run, core, tracer
        self.gate = Gate(run.config)
        self.enrolled: set[str] = set()
        self.draining = False

    async def cid(self, key: bytes, context: Context) -> str:
        """Returns the id of the client that has this key; aborts the call without one.

        A client with a certificate of its own speaks for itself alone.
        """
        try:
            cid = cid_of(key)
        except ProtocolError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        row = self._run.coordinator.state.clients.get(cid)
        client = None if row is None else printable(row.name)
        concern(cid=cid, client=client)
        self._tracer.note(cid=cid, client=client)
        name = self.gate.certified_name(context)
        if name is not None and row is not None and row.name != name:
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED,
                f"the certificate belongs to {name!r}, the client id to another client",
            )
        return cid

    async def check_disk(self, context: Context) -> None:
        """Aborts the call while the disk fails: no answer could be made durable."""
        if self._core.trouble:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                "the server's disk is full or fails; come back later: nothing is lost, "
                "and the run goes on once the disk works",
            )


@dataclass(frozen=True, slots=True)
class Backend:
    """The parts of the server that the methods of the service share."""

    run: Run
    core: Core
    answers: Answers
    sessions: Sessions
    callers: Callers
    tracer: Tracer
    versions: VersionSpans


def wrong_text(which: str, text: str) -> str:
    """Says why a text cannot be kept, being too long or not printable; else empty."""
    if len(text) > LONG_NAME:
        return f"a {which} of {len(text)} characters, the limit is {LONG_NAME}"
    if not is_printable(text):
        return f"a {which} must be printable text, got {text!a}"
    return ""


async def check_text(which: str, text: str, context: Context) -> None:
    """Aborts the call if a text cannot be kept."""
    if reason := wrong_text(which, text):
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, reason)
