"""Saved results keep every run, not only the last or the best one."""

from fedcore.typing import JSON

EARLIER = "earlier"


def after(before: JSON, run: JSON) -> JSON:
    """A run, with those that were saved before it: the oldest comes first."""
    if not before:
        return run
    last = {name: value for name, value in before.items() if name != EARLIER}
    return {**run, EARLIER: [*before.get(EARLIER, []), last]}


def runs(kept: JSON) -> list[JSON]:
    """Every run, in the order in which they were saved."""
    last = {name: value for name, value in kept.items() if name != EARLIER}
    return [*kept.get(EARLIER, []), last]
