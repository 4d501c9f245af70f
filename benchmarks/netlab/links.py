"""The links of six clients, and the events on them with their times."""

import math
from typing import Literal, NamedTuple

from fedcore.rng import Key
from fedcore.typing import Seconds


class Link(NamedTuple):
    """An access link, the same in both directions."""

    rate: str
    delay: int  # milliseconds one way: a round trip takes twice as long
    loss: int  # per cent of the packets, each way

    @property
    def text(self) -> str:
        """As the tool takes it."""
        return f"rate={self.rate},delay={self.delay}ms,loss={self.loss}%"

    def __str__(self) -> str:
        """As a table shows it."""
        return f"{self.rate}, {self.delay} ms, {self.loss} %"


LINKS = (
    Link("20mbit", 50, 1),
    Link("10mbit", 80, 1),
    Link("4mbit", 100, 2),
    Link("2mbit", 150, 3),
    Link("512kbit", 200, 4),
    Link("256kbit", 300, 5),
)
CLIENTS = len(LINKS)
MOVER = 2  # the client whose address changes
SPARE = CLIENTS + 1  # the host that it moves to; its link is the same
HOSTS = CLIENTS + 2  # with the server's, which is the first

CUT: Seconds = 60.0  # how long a link is down
EVERY: Seconds = 45.0  # from one cut to the next: one link or two are down at a time
FIRST: Seconds = 5.0
MOVES: Seconds = 120.0  # from one change of the address to the next
FIRST_MOVE: Seconds = 20.0


class Event(NamedTuple):
    """Something that happens to a client's link."""

    at: Seconds  # since the first task was given out
    kind: Literal["cut", "back", "move"]
    client: int


def schedule(seed: int, until: Seconds) -> list[Event]:
    """What happens, in order; it depends on the seed and on nothing else.

    All links are cut in turn, in an order that is drawn anew for each turn. A link is
    never cut while it is down.

    Args:
        seed: of the order.
        until: the last link is cut before that.
    """
    key, events = Key.root(seed).fold_in("cuts"), list[Event]()
    order: list[int] = []
    at, turn = FIRST, 0
    while at < until:
        if not order:
            order = key.fold_in(turn).generator().permutation(CLIENTS).tolist()
            turn += 1
        down = {e.client for e in events if e.kind == "back" and e.at > at}
        client = next(each for each in order if each not in down)
        order.remove(client)
        events += [Event(at, "cut", client), Event(at + CUT, "back", client)]
        at += EVERY
    moves = range(max(0, math.ceil((until - FIRST_MOVE) / MOVES)))
    events += [Event(FIRST_MOVE + MOVES * n, "move", MOVER) for n in moves]
    return sorted(events)


def host_of(client: int, moves: int = 0) -> str:
    """The host of a client, after so many changes of its address."""
    number = SPARE if client == MOVER and moves % 2 else client + 1
    return f"h{number}"


def lab(seed: int) -> list[str]:
    """The options by which the tool makes these hosts."""
    words = ["--hosts", str(HOSTS), "--seed", str(seed)]
    for client, link in enumerate(LINKS):
        words += ["--host", f"{host_of(client)}:{link.text}"]
    return [*words, "--host", f"{host_of(MOVER, 1)}:{LINKS[MOVER].text}"]
