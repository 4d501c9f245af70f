"""Receives the payload of an update: whole, unharmed, and within bounds."""

import asyncio
import zlib
from collections.abc import AsyncIterator
from typing import Self

from fedwire.convert import INLINE
from fedwire.frames import read_chunk, read_header
from fedwire.v1 import federation_pb2 as pb

from fedcore.errors import ProtocolError, UnavailableError
from fedcore.params import content_digest
from fedcore.typing import Seconds
from fedserver.limits import Limit, Newest
from fedserver.uploads import Name, Upload, Uploads

IN_THREAD = 256 << 10  # payloads from this size on are hashed beside the event loop


class PushFrames:
    """The messages of a push: a header, and then the chunks of its payload."""

    def __init__(self, frames: AsyncIterator[bytes]) -> None:
        self._frames = frames

    async def header(self) -> pb.PushHeader:
        """Reads the header. Must be called once, before the first chunk is taken.

        Raises:
            ProtocolError: the first message is no header.
        """
        return read_header(await anext(self._frames, b""))

    def __aiter__(self) -> Self:
        """Iterates over the frames after the header."""
        return self

    async def __anext__(self) -> bytes:
        """Returns the next frame."""
        return await anext(self._frames)


class Receiver:
    """Receives payloads into uploads; a client's newer one ends its earlier one."""

    def __init__(self, uploads: Uploads, most: int, stall: Seconds) -> None:
        """``most``: the bytes of one payload; ``stall``: how long it may wait."""
        self.uploads, self._most, self._stall = uploads, most, stall
        self._newest = Newest()

    async def header(self, frames: PushFrames) -> pb.PushHeader:
        """Reads the header of a push, and checks the size of what follows.

        Raises:
            TimeoutError: it does not come.
            ProtocolError: it is no header, or the update is too large.
        """
        async with asyncio.timeout(self._stall):
            header = await frames.header()
        self._check_size(header.size or len(header.payload))
        return header

    def _check_size(self, size: int) -> None:
        if size > self._most:
            raise ProtocolError(
                f"an update of {size} bytes; the limit of this server is "
                f"{self._most} (server.max_update_bytes)"
            )

    async def receive(
        self, name: Name, header: pb.PushHeader, frames: PushFrames
    ) -> Upload | None:
        """Returns the payload; None if it did not arrive whole, sound and in time."""
        with self._newest.call(name[0]) as limit:
            try:
                upload = await self._place(name, header, limit)
            except (UnavailableError, TimeoutError):
                return None
            return await self._filled(upload, frames, limit)

    async def _place(self, name: Name, header: pb.PushHeader, limit: Limit) -> Upload:
        """Waits for room, and returns a place for an update.

        Raises:
            UnavailableError: the client waits for a verdict.
            TimeoutError: there was no room for too long, or a newer update arrived.
        """

        def take() -> Upload:
            if header.size:
                return self.uploads.begin(name, header.size, limit.end)
            return self.uploads.hold(name, header.payload, limit.end)

        async with limit.within(self._stall):
            return await self.uploads.turn(name, take, is_inline=not header.size)

    async def _filled(
        self, upload: Upload, frames: PushFrames, limit: Limit
    ) -> Upload | None:
        """Receives the payload of an upload; returns None as :meth:`receive` does."""
        is_kept = False
        try:
            async with limit.within(0) as waiting:
                waiting.reschedule(self.uploads.ends(upload))
                async for frame in frames:
                    if upload.is_inline:
                        raise ProtocolError(
                            "a frame after a payload that was in the first one"
                        )
                    upload.write(read_chunk(frame))
                    waiting.reschedule(self.uploads.ends(upload))
            if upload.is_whole:
                is_kept = await _is_unharmed(upload)
                if not is_kept:
                    self.uploads.end(upload)
        except (UnavailableError, TimeoutError):
            pass  # damaged on its way, too slow, or a newer one arrived
        except ProtocolError:
            self.uploads.end(upload)
            raise
        finally:
            if not is_kept:
                self.uploads.cut(upload)
        return upload if is_kept else None


def upload_name(cid: str, header: pb.PushHeader) -> Name | None:
    """Returns the name of an update; None if the update was damaged on its way."""
    if header.size:
        return cid, header.seq, header.digest.hex()
    if len(header.payload) > INLINE:
        raise ProtocolError(
            f"a payload of {len(header.payload)} bytes in the first frame; the "
            f"limit is {INLINE}"
        )
    if zlib.crc32(header.payload) != header.crc32:
        return None
    return cid, header.seq, content_digest(header.payload)


async def _is_unharmed(upload: Upload) -> bool:
    """Returns whether the bytes of a whole payload are those that its digest names."""
    if upload.is_inline:
        return True  # its name was made of it
    if len(upload.buffer) < IN_THREAD:
        found = content_digest(upload.buffer)
    else:
        found = await asyncio.to_thread(content_digest, upload.buffer)
    return found == upload.name[2] and not upload.is_released
