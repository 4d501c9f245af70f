"""Keeps updates in memory from their first byte to their verdict, within bounds.

Each client has one at a time; a newer one ends the older one. An update that finds no
room waits in a line. A transfer that was cut off goes on where it stopped, unless its
buffer was needed for another one. A transfer that is too slow is stopped after a while,
or at once when its room is needed.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from fedwire.frames import Part

from fedcore.errors import ProtocolError, UnavailableError
from fedcore.payloads import room
from fedcore.typing import Bytes, Seconds
from fedserver.limits import Line

Name = tuple[str, int, str]  # cid, sequence number, digest of the payload
IDLE: Seconds = 120.0  # an upload that makes no progress for this long is dropped
BRIEF: Seconds = 5.0  # a client may stall for this long while others need room
NEW = 5  # clients that have never delivered an update may do so 1/NEW as long


class NoRoomError(UnavailableError):
    """There is no free place, or not enough memory."""


def _no_transfer() -> None:
    """Does nothing: the transfer has ended."""


@dataclass(slots=True)
class Upload:
    """One payload, as far as it has been received."""

    name: Name
    buffer: Bytes
    received: int = 0
    in_use: bool = False
    is_decided_on: bool = False  # it is whole, and waits for its verdict
    is_released: bool = False
    is_inline: bool = False
    began: Seconds = 0.0  # of the current transfer
    touched: Seconds = field(default_factory=time.monotonic)
    stop: Callable[[], None] = _no_transfer  # ends that transfer

    def write(self, part: Part) -> None:
        """Writes the next chunk; a chunk at byte 0 begins again.

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
        assert isinstance(self.buffer, memoryview)
        self.buffer[part.offset : end] = part.data
        self.received = end
        self.touched = time.monotonic()

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing."""
        return not self.is_released and self.received == len(self.buffer)

    def release(self) -> None:
        """Frees the memory; a transfer that still writes to it fails."""
        self.buffer, self.is_released = b"", True


class Uploads:
    """All updates in memory, one for each client."""

    def __init__(
        self,
        most: int,
        most_bytes: int,
        patience: Seconds,
        slowest: float,
        room: Callable[[int], memoryview] = room,
    ) -> None:
        """Begins without any update.

        Args:
            most: transfers of large payloads at a time.
            most_bytes: bytes of all payloads at a time, until their verdict.
            patience: seconds in all for which an upload may stall.
            slowest: bytes a second that an upload must reach, besides.
            room: returns memory for an update.
        """
        self._room = room
        self._most, self._most_bytes = most, most_bytes
        self._patience, self._slowest = patience, slowest
        self._open: dict[str, Upload] = {}  # by cid
        self._spent: dict[str, Seconds] = {}  # on transfers that failed
        self._known: set[str] = set()  # ids of clients that have delivered an update
        self._lines = {True: Line(most), False: Line(most)}  # by: is it in one piece?
        self._since: dict[str, Seconds] = {}  # when each waiting client arrived
        self.nbytes = 0  # that are held now
        self._large = 0  # payloads that are held and did not come in one piece

    async def turn(
        self, name: Name, take: Callable[[], Upload], *, is_inline: bool
    ) -> Upload:
        """Waits for room; returns what :meth:`begin` or :meth:`hold` returns then.

        A client that was asked to come back keeps its first place in the line.

        Raises:
            UnavailableError: too many clients wait, or this one waits for a verdict.
        """
        if self.received(name):
            return take()  # its room is kept

        def taken() -> Upload | None:
            try:
                return take()
            except NoRoomError:
                return None

        since = self._since.setdefault(name[0], time.monotonic())
        upload = await self._lines[is_inline].turn(taken, since)
        self._since.pop(name[0], None)
        return upload

    def begin(
        self, name: Name, size: int, stop: Callable[[], None] = _no_transfer
    ) -> Upload:
        """Returns the buffer of an upload, new or with what was received before.

        ``stop`` is called if the transfer must end before it is through.

        Raises:
            NoRoomError: there is no room.
            UnavailableError: the client waits for a verdict.
        """
        upload = self._take_up(name, size)
        if upload is None:
            self._drop_idle()
            self._make_room(size, is_inline=False)
            upload = Upload(name, self._room(size))
            self._keep(upload)
        upload.in_use, upload.stop = True, stop
        upload.began = upload.touched = time.monotonic()
        return upload

    def hold(
        self, name: Name, payload: Bytes, stop: Callable[[], None] = _no_transfer
    ) -> Upload:
        """Holds a small payload that was received in one piece.

        Raises:
            NoRoomError: there is no room.
            UnavailableError: the client waits for a verdict.
        """
        before = self._take_up(name, -1)
        assert before is None
        self._make_room(len(payload), is_inline=True)
        upload = Upload(name, payload, len(payload), in_use=True, is_inline=True)
        upload.began, upload.stop = time.monotonic(), stop
        self._keep(upload)
        return upload

    def _take_up(self, name: Name, size: int) -> Upload | None:
        """Returns an upload to resume; drops any other upload of the client."""
        before = self._open.get(name[0])
        if before is None:
            return None
        if before.is_decided_on:
            raise UnavailableError("another message of this client is being decided on")
        if before.name == name and not before.in_use and len(before.buffer) == size:
            return before
        self._drop(before)  # if in use, its connection broke unnoticed
        return None

    def is_waiting(self, name: Name) -> bool:
        """Returns whether this message waits for its verdict already."""
        upload = self._open.get(name[0])
        return upload is not None and upload.is_decided_on and upload.name == name

    def received(self, name: Name) -> int:
        """Returns the number of bytes of an upload that were received."""
        upload = self._open.get(name[0])
        if upload is None or upload.name != name or upload.in_use:
            return 0
        return upload.received

    def ends(self, upload: Upload) -> Seconds:
        """Returns the time on the monotonic clock until which a transfer may last."""
        return upload.began + self._patience + upload.received / self._slowest

    def cut(self, upload: Upload) -> None:
        """Ends a transfer, and keeps what was received so that it can be resumed.

        So an upload over the slowest link gets through in parts, while there is room.
        """
        if upload.is_inline:
            self.end(upload)
        else:
            self._end_transfer(upload)
            self._move()

    def decide(self, upload: Upload) -> None:
        """Keeps a whole and unharmed payload until :meth:`end`."""
        upload.is_decided_on, upload.stop = True, _no_transfer
        self._spent.pop(upload.name[0], None)
        self._known.add(upload.name[0])

    def end(self, upload: Upload) -> None:
        """Frees the buffer of an upload."""
        if self._open.get(upload.name[0]) is upload:
            del self._open[upload.name[0]]
            self.nbytes -= len(upload.buffer)
            self._large -= not upload.is_inline
            self._end_transfer(upload)
            self._move()

    def forget(self, cid: str) -> None:
        """Drops all that is kept of a client, unless it has a newer transfer."""
        upload = self._open.get(cid)
        if upload is not None and not upload.in_use:
            self._drop(upload)
        self._spent.pop(cid, None)
        self._since.pop(cid, None)

    def _move(self) -> None:
        """Lets the clients that wait look for room."""
        for line in self._lines.values():
            line.move()

    def _keep(self, upload: Upload) -> None:
        self._open[upload.name[0]] = upload
        self.nbytes += len(upload.buffer)
        self._large += not upload.is_inline

    def _drop_idle(self) -> None:
        now = time.monotonic()
        for upload in list(self._open.values()):
            if not upload.in_use and now - upload.touched > IDLE:
                self._drop(upload)

    def _make_room(self, size: int, *, is_inline: bool) -> None:
        now = time.monotonic()
        while not self._has_room(size, is_inline=is_inline):
            slow = min(
                self._open.values(), key=lambda u: self._lead(u, now), default=None
            )
            if slow is None or self._lead(slow, now) >= 0:
                raise NoRoomError("there is no room for another update")
            self._drop(slow)

    def _has_room(self, size: int, *, is_inline: bool) -> bool:
        if self.nbytes + size > self._most_bytes:
            return False
        return is_inline or self._large < self._most

    def _lead(self, upload: Upload, now: Seconds) -> float:
        """Returns its bytes beyond the slowest rate; below 0 it makes room."""
        if upload.is_decided_on:
            return 0.0
        if not upload.in_use:  # those that wait for longest go first, and before others
            return -1e18 + upload.touched
        cid = upload.name[0]
        spent = self._spent.get(cid, 0.0) + now - upload.began
        brief = BRIEF if cid in self._known else BRIEF / NEW
        return min(0.0, upload.received - self._slowest * (spent - brief))

    def _drop(self, upload: Upload) -> None:
        stop = upload.stop
        self.end(upload)
        upload.release()
        stop()

    def _end_transfer(self, upload: Upload) -> None:
        """Ends a transfer, and adds its time to what the client has spent in vain."""
        if upload.in_use and not upload.is_decided_on:
            cid, spent = upload.name[0], time.monotonic() - upload.began
            self._spent[cid] = self._spent.get(cid, 0.0) + spent
        upload.in_use, upload.stop = False, _no_transfer
