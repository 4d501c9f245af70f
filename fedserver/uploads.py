"""Uploads in progress: a bounded number of preallocated buffers.

A transfer that was cut off goes on where it stopped, as long as its buffer was not
needed for another one.
"""

import time
from dataclasses import dataclass, field

from fedwire.frames import Part

from fedcore.errors import ProtocolError, UnavailableError
from fedcore.typing import Seconds

Name = tuple[str, int, str]  # cid, sequence number, digest of the payload
IDLE: Seconds = 120.0  # an upload that nobody goes on with is dropped after this time


@dataclass(slots=True)
class Upload:
    """The bytes of one payload, as far as they have come."""

    buffer: bytearray
    received: int = 0
    in_use: bool = False
    is_released: bool = False
    touched: Seconds = field(default_factory=time.monotonic)

    def write(self, part: Part) -> None:
        """Takes the next chunk; one at byte 0 begins anew.

        Raises:
            ProtocolError: it is not the next one, or there is no room for it.
            UnavailableError: the buffer was needed for another upload.
        """
        if self.is_released:
            raise UnavailableError("the buffer was needed for another upload")
        if part.offset not in (0, self.received):
            raise ProtocolError(f"expected byte {self.received}, got {part.offset}")
        end = part.offset + len(part.data)
        if end > len(self.buffer):
            raise ProtocolError(f"{end} bytes in an update of {len(self.buffer)}")
        self.buffer[part.offset : end] = part.data
        self.received = end
        self.touched = time.monotonic()

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing."""
        return not self.is_released and self.received == len(self.buffer)

    def release(self) -> None:
        """Whoever still writes to it is through: the memory is needed."""
        self.buffer, self.is_released = bytearray(), True


class Uploads:
    """All uploads in progress."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[Name, Upload] = {}

    def begin(self, name: Name, size: int) -> Upload:
        """The buffer for an upload, new or with what came before.

        Raises:
            UnavailableError: all buffers are in use.
        """
        upload = self._open.get(name)
        if upload is None or upload.in_use or len(upload.buffer) != size:
            if upload is not None:  # a connection that broke, and was not noticed yet
                self._drop(name)
            self._make_room()
            upload = self._open[name] = Upload(bytearray(size))
        upload.in_use = True
        return upload

    def received(self, name: Name) -> int:
        """How many bytes of an upload are here."""
        upload = self._open.get(name)
        return upload.received if upload is not None and not upload.in_use else 0

    def pause(self, upload: Upload) -> None:
        """The transfer was cut off; it may go on later."""
        upload.in_use = False

    def end(self, name: Name, upload: Upload) -> None:
        """The buffer is not needed any more."""
        if self._open.get(name) is upload:
            del self._open[name]

    def _make_room(self) -> None:
        now = time.monotonic()
        idle = [
            (upload.touched, name)
            for name, upload in self._open.items()
            if not upload.in_use or now - upload.touched > IDLE
        ]
        for touched, name in sorted(idle):
            if now - touched > IDLE or len(self._open) >= self._most:
                self._drop(name)
        if len(self._open) >= self._most:
            raise UnavailableError(f"{self._most} uploads are in progress")

    def _drop(self, name: Name) -> None:
        self._open.pop(name).release()
