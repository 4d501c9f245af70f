"""The decided messages that a client remembers, since a restored server may differ."""

from collections.abc import Sequence

from fedcore.participant.state import Sent
from fedcore.protocol import HISTORY


def newest(history: Sequence[Sent], room: int) -> tuple[Sent, ...]:
    """The newest H messages: at most ``room`` bytes of them, but one at least."""
    kept: list[Sent] = []
    for sent in reversed(history[-HISTORY:]):
        room -= len(sent.payload)
        if room < 0 and kept:
            break
        kept.append(sent)
    return tuple(reversed(kept))
