"""A slow link is not taken for a client that stands still."""

import asyncio

from fedwire.frames import CHUNK, FIRST, chunk_frames, growing, read_chunk

from fedserver.calls.callers import Limit
from fedserver.calls.pulls import BUFFERED, Downloads


def test_chunks_are_small_until_it_is_known_how_fast_they_are_taken() -> None:
    async def sizes() -> list[int]:
        downloads, found = Downloads(1), []
        for pause in (0.0, 1e6):
            async with downloads.place("ann", Limit()) as download:
                found.append(download.next_size())
                download.touch(BUFFERED - 1)
                found.append(download.next_size())
                download.began -= pause
                download.touch(1)
                found.append(download.next_size())
                download.is_taken = True
        return found

    # The second time it begins with what it could take the first time.
    assert asyncio.run(sizes()) == [FIRST, FIRST, CHUNK, CHUNK, CHUNK, FIRST]


def test_no_chunk_of_an_upload_is_larger_than_what_has_arrived_before() -> None:
    payload = bytes(range(256)) * (1 << 14)
    frames = list(chunk_frames([payload[:100], payload[100:]], 0, growing()))
    parts = [read_chunk(frame) for frame in frames]
    assert b"".join(part.data for part in parts) == payload
    for part in parts[:-1]:
        assert len(part.data) <= min(CHUNK, part.offset + FIRST)
    assert max(len(part.data) for part in parts) == CHUNK
