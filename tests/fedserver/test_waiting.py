"""Who waits for room: in order, not too many; who was turned away goes first."""

import asyncio
import random

import pytest
from fedwire.frames import Part
from hypothesis import given
from hypothesis import strategies as st

from fedcore.errors import UnavailableError
from fedserver.calls.callers import Line
from fedserver.calls.pushes import Name, Upload, Uploads


class Rooms:
    """Some places, and a line before them."""

    def __init__(self, places: int, most: int = 1000) -> None:
        self.free, self.line, self.taken = places, Line(most), list[int]()

    async def visit(self, who: int, rank: float = 0.0) -> None:
        """Takes a place and keeps it for a moment."""

        def take() -> bool | None:
            if not self.free:
                return None
            self.free -= 1
            return True

        await self.line.turn(take, rank)
        self.taken.append(who)
        await asyncio.sleep(0)
        self.free += 1
        self.line.move()


@given(st.lists(st.integers(0, 3), max_size=30), st.integers(1, 3))
def test_the_lowest_rank_comes_first_and_then_who_came_first(
    ranks: list[int], places: int
) -> None:
    async def visits() -> list[int]:
        rooms = Rooms(places)
        rooms.free = 0  # until all have come
        some = [asyncio.create_task(rooms.visit(*each)) for each in enumerate(ranks)]
        await asyncio.sleep(0)
        rooms.free = places
        rooms.line.move()
        await asyncio.gather(*some)
        assert not len(rooms.line)
        return rooms.taken

    expected = sorted(range(len(ranks)), key=lambda who: (ranks[who], who))
    assert asyncio.run(visits()) == expected


def test_who_hangs_up_while_waiting_takes_no_room() -> None:
    async def visits() -> list[int]:
        rooms = Rooms(0)
        some = [asyncio.create_task(rooms.visit(who)) for who in range(9)]
        await asyncio.sleep(0)
        for gone in (0, 3, 8):
            some[gone].cancel()
        rooms.free = 1
        await asyncio.gather(*some, return_exceptions=True)
        assert rooms.free == 1
        return rooms.taken

    assert asyncio.run(visits()) == [1, 2, 4, 5, 6, 7]


def test_where_too_many_wait_the_last_ones_are_turned_away() -> None:
    async def visits() -> tuple[list[int], list[int]]:
        rooms = Rooms(0, most=3)
        ranks = [5.0, 1.0, 4.0, 2.0, 3.0]
        some = [asyncio.create_task(rooms.visit(*each)) for each in enumerate(ranks)]
        await asyncio.sleep(0.01)
        away = [who for who, task in enumerate(some) if task.done()]
        for who in away:
            with pytest.raises(UnavailableError, match="too many wait"):
                await some[who]
        rooms.free = 1
        rooms.line.move()
        await asyncio.gather(*(task for task in some if not task.done()))
        return away, rooms.taken

    assert asyncio.run(visits()) == ([0, 2], [1, 3, 4])


def test_every_client_gets_its_turn_however_many_ask_and_come_back() -> None:
    """Also beside one that is back at once, each time."""
    accepted = dict.fromkeys(range(40), 0)

    async def main() -> None:
        uploads, rng = Uploads(2, 1 << 20, 30.0, 1e3), random.Random(1)

        async def work(who: int) -> None:
            for seq in range(1000):
                if min(accepted.values()) >= 3:
                    return
                if await _is_taken(uploads, (f"{who}", seq, "")):
                    accepted[who] += 1
                await asyncio.sleep(0 if who == 0 else rng.uniform(0, 0.01))

        await asyncio.gather(*map(work, accepted))

    asyncio.run(main())
    assert min(accepted.values()) >= 3
    assert max(accepted.values()) <= 3 * min(accepted.values())


async def _is_taken(uploads: Uploads, name: Name) -> bool:
    def take() -> Upload:
        return uploads.begin(name, 4)

    try:
        upload = await uploads.turn(name, take, is_inline=False)
    except UnavailableError:
        return False
    uploads.decide(upload)
    await asyncio.sleep(0.001)
    uploads.end(upload)
    return True


def test_an_upload_that_was_cut_does_not_wait_for_room_that_it_has() -> None:
    name = ("ann", 1, "digest")

    async def main() -> int:
        uploads = Uploads(1, 1 << 20, 30.0, 1e3)
        upload = uploads.begin(name, 4)
        upload.write(Part(0, memoryview(b"ab")))
        uploads.cut(upload)
        uploads._lines[False] = Line(0)  # everybody who waits is turned away
        again = await uploads.turn(
            name, lambda: uploads.begin(name, 4), is_inline=False
        )
        return again.received

    assert asyncio.run(main()) == 2
