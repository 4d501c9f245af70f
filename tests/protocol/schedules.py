"""Random schedules, and how a failing one is cut down."""

import random
from collections.abc import Callable
from dataclasses import replace

from tests.protocol.world import Setting, Step, World

LENGTH = 300  # steps of a schedule
OPERATED = 24  # acts of an operator, in a schedule that has one
# How often each step is taken, in a calm and in a stormy phase.
CALM = {
    "pull": 10, "begin": 12, "finish": 14, "push": 14, "deliver": 30, "answer": 30,
    "commit": 4, "duplicate": 2, "lose": 1, "snapshot": 1, "timer": 2,
    "late_timer": 1, "forge": 2, "intrude": 2,
}  # fmt: skip
STORM = {
    "pull": 10, "begin": 10, "finish": 12, "push": 14, "deliver": 24, "answer": 22,
    "commit": 4, "duplicate": 6, "lose": 4, "spoil": 1, "kill_client": 3,
    "kill_server": 2, "start_server": 6, "snapshot": 2, "backup": 1, "restore": 1,
    "roll_back": 1, "timer": 3, "lost_client": 1, "flush": 1, "leave": 1,
    "lose_disk": 1, "copy_disk": 1, "restore_disk": 1, "forge": 4,
    "late_timer": 2, "intrude": 3,
}  # fmt: skip


def draw(rng: random.Random, length: int) -> list[Step]:
    """A schedule of calm and stormy phases."""
    steps: list[Step] = []
    while len(steps) < length:
        weights = rng.choice([CALM, CALM, STORM])
        names = list(weights)
        phase = rng.choices(names, list(weights.values()), k=rng.randint(5, 60))
        steps += [(name, rng.getrandbits(16), rng.getrandbits(16)) for name in phase]
    if rng.random() < 0.1:
        steps.insert(rng.randrange(len(steps)), ("stop", 0, 1))
    return steps[:length]


def drawn(seed: int) -> tuple[Setting, list[Step]]:
    """The setting and the schedule of a seed.

    In every fourth one clients overlap, and in another fourth an operator acts.
    """
    rng = random.Random(seed)
    setting, schedule = Setting.draw(rng), draw(rng, LENGTH)
    if seed % 4 == 2:
        schedule = operated(rng, schedule)
    return replace(setting, overlap=seed % 4 == 3), schedule


def operated(rng: random.Random, schedule: list[Step]) -> list[Step]:
    """The schedule with an operator that pauses the run, and evicts clients."""
    steps = list(schedule)
    for _ in range(OPERATED):
        act = rng.choice(["pause", "pause", "evict", "evict", "order_snapshot"])
        step = (act, rng.getrandbits(16), rng.getrandbits(16))
        steps.insert(rng.randrange(len(steps) + 1), step)
    return steps


def failure(setting: Setting, schedule: list[Step]) -> str | None:
    """What a schedule brings to light, or None."""
    with World(setting) as world:
        try:
            world.execute(schedule)
            world.drain()
        except AssertionError as error:
            return str(error) or "an assertion of the code failed"
        except Exception as error:  # noqa: BLE001 -- a mutant may fail in any way
            return f"{type(error).__name__}: {error}"
    return None


def shrink(
    schedule: list[Step], fails: Callable[[list[Step]], bool], patience: int = 400
) -> list[Step]:
    """A part of the schedule that still fails, from which little can be left out."""
    size = max(1, len(schedule) // 2)
    while size >= 1 and patience > 0:
        at, cut = 0, False
        while at < len(schedule) and patience > 0:
            shorter = schedule[:at] + schedule[at + size :]
            patience -= 1
            if fails(shorter):
                schedule, cut = shorter, True
            else:
                at += size
        if not cut or size > 1:
            size = size // 2 if size > 1 else 0 if not cut else 1
    return schedule


def story(setting: Setting, schedule: list[Step]) -> str:
    """A failing schedule as a person reads it."""
    with World(setting) as world:
        try:
            world.execute(schedule)
            world.drain()
            ending = "nothing is wrong"
        except Exception as error:  # noqa: BLE001
            ending = f"{type(error).__name__}: {error}"
    return "\n".join([str(setting), *world.log, f"      => {ending}"])
