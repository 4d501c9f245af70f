"""Heartbeats: a thread shows the server that this process is alive."""

import threading
from collections.abc import Callable, Iterator

import grpc
from fedwire.v1 import federation_pb2 as pb

from fedclient.wire.connection import Connection
from fedcore.typing import Seconds


class Attendance:
    """Sends heartbeats until it is closed, also after a broken connection."""

    def __init__(
        self,
        connection: Connection,
        interval: Seconds,
        hear: Callable[[pb.Notice], None],
    ) -> None:
        """Calls ``hear`` with the server's notices, on the thread."""
        self._connection, self._interval = connection, interval
        self._key = connection.key  # the connection may get another client's
        self._hear = hear
        self._closed, self._waiting = threading.Event(), ""
        self._thread = threading.Thread(
            target=self._attend, name="attendance", daemon=True
        )
        self._thread.start()

    def close(self, waiting: str = "") -> None:
        """Ends the session, so that the server sees that this process is gone.

        Args:
            waiting: the last message to the server: why the client begins no task.
        """
        self._waiting = waiting
        self._closed.set()
        self._thread.join(timeout=2.0)

    def _attend(self) -> None:
        while not self._closed.is_set():
            try:
                for notice in self._connection.attend(self._beats()):
                    self._hear(notice)
                    if notice.kind == pb.Notice.KIND_SUPERSEDED:
                        return
            except (grpc.RpcError, ValueError):  # ValueError: the channel is closed
                pass
            self._closed.wait(self._interval)

    def _beats(self) -> Iterator[pb.Beat]:
        yield pb.Beat(key=self._key, session=self._connection.session)
        while not self._closed.wait(self._interval):
            yield pb.Beat()
        if self._waiting:
            yield pb.Beat(waiting=self._waiting)
