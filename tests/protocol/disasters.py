"""Composed disasters: what chance alone finds too rarely.

A step is ``(what, a, b)``. ``a`` names the client, or the place of a message in the
network, or a copy; an odd ``b`` doubles or loses what travels to the server, an even
one what travels to clients; a ``b`` that four divides delays the commit.
"""

from tests.protocol.world import Setting, Step

ASYNCHRONOUS = Setting()
SYNCHRONOUS = Setting(synchronous=True)
OVERLAPPING = Setting(overlap=True)


def trains(who: int, update: int = 1) -> list[Step]:
    """A client makes a message; ``update`` says which."""
    return [("fetch", who, 1), ("begin", who, 1), ("finish", who, update)]


def counts(who: int, update: int = 1) -> list[Step]:
    """A client's update is accepted, and the client knows."""
    return [*trains(who, update), ("push", who, 1), ("deliver", 0, 1), ("answer", 0, 1)]


def counts_past(who: int, update: int) -> list[Step]:
    """The same, past one other message that waits on its way to the server."""
    return [*trains(who, update), ("push", who, 1), ("deliver", 1, 1), ("answer", 0, 1)]


def intrudes(times: int) -> list[Step]:
    """Somebody pushes what it was given no task for."""
    steps: list[Step] = []
    for number in range(times):
        steps += [("intrude", number, 5 * number + 1), ("deliver", 0, 1)]
        steps.append(("answer", 0, 1))
    return steps


def pulls(who: int) -> list[Step]:
    """A client takes over the server's model and history."""
    return [("pull", who, 1), ("deliver", 0, 1), ("answer", 0, 1)]


def goes_on(first: int, second: int) -> list[Step]:
    """A version is made of the updates of two clients, who then know it."""
    return [*counts(0, first), *counts(1, second), *pulls(0), *pulls(1)]


def lies(count: int) -> list[Step]:
    """Somebody makes forged claims, of all kinds."""
    steps: list[Step] = []
    for number in range(count):
        steps += [("forge", number, 7 * number + 1), ("deliver", 0, 1)]
        steps.append(("answer", 0, 1))
    return steps


LOSE_ANSWER: Step = ("lose", 0, 2)

DISASTERS: dict[str, tuple[Setting, list[Step]]] = {
    "decided, acknowledgement lost, backup, restore, resend": (
        ASYNCHRONOUS,
        [
            *trains(0),
            ("push", 0, 1),
            ("deliver", 0, 1),
            LOSE_ANSWER,
            ("backup", 0, 1),
            ("restore", 0, 1),
            ("push", 0, 1),
            ("deliver", 0, 1),
            ("answer", 0, 1),
        ],
    ),
    "restored behind what clients know, twice from the same copy": (
        ASYNCHRONOUS,
        [
            *counts(0),
            ("backup", 0, 1),
            *counts(0, 2),
            *counts(1, 4),
            *counts(0, 5),
            ("restore", 0, 1),
            *pulls(0),
            *counts(0, 6),
            *counts(1, 8),
            ("restore", 0, 1),
            *pulls(1),
            *pulls(0),
        ],
    ),
    "restored from a copy of an abandoned branch": (
        ASYNCHRONOUS,
        [
            ("backup", 0, 1),
            *counts(0),
            *counts(1, 2),
            ("restore", 0, 1),
            *pulls(0),
            *counts(0, 4),
            ("backup", 0, 1),
            ("restore", 0, 1),
            *pulls(0),
            *counts(0, 5),
            ("restore", 1, 1),
            *pulls(0),
            *pulls(1),
        ],
    ),
    "rejected here, rolled back, accepted there, and the rejection arrives": (
        SYNCHRONOUS,
        [
            *trains(0),
            ("push", 0, 1),
            ("duplicate", 0, 1),
            ("backup", 0, 1),
            *trains(1, 2),
            ("push", 1, 1),
            *trains(2, 4),
            ("push", 2, 1),
            ("deliver", 2, 1),
            LOSE_ANSWER,
            ("deliver", 2, 1),
            LOSE_ANSWER,
            ("deliver", 0, 1),
            ("roll_back", 0, 1),
            ("deliver", 0, 1),
            ("answer", 0, 1),
            LOSE_ANSWER,
        ],
    ),
    "an old disk makes another message of the same number": (
        ASYNCHRONOUS,
        [
            ("copy_disk", 0, 1),
            *trains(0),
            ("push", 0, 1),
            ("restore_disk", 0, 1),
            *trains(0, 2),
            ("deliver", 0, 1),
            ("answer", 0, 1),
        ],
    ),
    "an old disk of a client whose later messages counted": (
        ASYNCHRONOUS,
        [
            ("copy_disk", 0, 1),
            *counts(0),
            *counts(0, 2),
            ("restore_disk", 0, 1),
            *pulls(0),
            *counts(0, 4),
        ],
    ),
    "after a client left, its enrolment and its message come again": (
        ASYNCHRONOUS,
        [
            ("lose_disk", 0, 1),
            ("duplicate", 0, 1),
            ("deliver", 0, 1),
            *trains(0),
            ("push", 0, 1),
            ("duplicate", 1, 1),
            ("deliver", 1, 1),
            ("answer", 0, 1),
            ("leave", 0, 1),
            ("deliver", 2, 1),
            ("deliver", 0, 1),
            ("deliver", 0, 1),
        ],
    ),
    "killed between receiving and committing": (
        ASYNCHRONOUS,
        [
            *trains(0),
            ("push", 0, 1),
            ("deliver", 0, 4),
            ("kill_server", 0, 1),
            ("start_server", 0, 1),
            ("answer", 0, 1),
            ("push", 0, 1),
            ("deliver", 0, 1),
        ],
    ),
    "killed between committing and answering": (
        ASYNCHRONOUS,
        [
            *trains(0),
            ("push", 0, 1),
            ("deliver", 0, 1),
            LOSE_ANSWER,
            ("kill_server", 0, 1),
            ("start_server", 0, 1),
            ("kill_client", 0, 1),
            ("push", 0, 1),
            ("deliver", 0, 1),
            ("answer", 0, 1),
        ],
    ),
    "a pull overtakes its client's verdict, and meets a restored server": (
        ASYNCHRONOUS,
        [
            *trains(0),
            ("push", 0, 1),
            ("deliver", 0, 1),
            ("pull", 0, 1),
            ("backup", 0, 1),
            ("restore", 0, 1),
            ("deliver", 0, 1),
            ("answer", 0, 1),
            ("answer", 0, 1),
        ],
    ),
    "trained on a history that is gone before the update is made": (
        ASYNCHRONOUS,
        [
            ("backup", 0, 1),
            *counts(0),
            ("begin", 0, 1),
            ("restore", 0, 1),
            *pulls(0),
            ("finish", 0, 2),
            *trains(0, 4),
            ("push", 0, 1),
            ("deliver", 0, 1),
            ("answer", 0, 1),
        ],
    ),
    "two branches publish different models under one version": (
        ASYNCHRONOUS,
        [
            ("backup", 0, 1),
            *trains(0),
            ("push", 0, 1),
            ("deliver", 0, 1),
            LOSE_ANSWER,
            *trains(1, 2),
            ("push", 1, 1),
            ("deliver", 0, 1),
            LOSE_ANSWER,
            *pulls(2),
            ("roll_back", 0, 1),
            ("lose_disk", 1, 1),
            ("deliver", 0, 1),
            ("push", 0, 1),
            ("deliver", 0, 1),
            ("answer", 0, 1),
            *counts(1, 4),
            *pulls(2),
        ],
    ),
    "restored, then set back to before the restore, and an old message arrives": (
        ASYNCHRONOUS,
        [
            ("backup", 0, 1),
            *trains(0),
            ("push", 0, 1),
            ("restore", 0, 1),
            ("pull", 0, 1),
            ("deliver", 1, 1),
            ("answer", 0, 1),
            ("roll_back", 0, 1),
            ("pull", 0, 1),
            ("deliver", 1, 1),
            ("deliver", 0, 1),
            ("answer", 0, 1),
        ],
    ),
    "told again after a restore, then set back to before it was decided": (
        ASYNCHRONOUS,
        [
            ("backup", 0, 1),
            *trains(0),
            ("push", 0, 1),
            ("deliver", 0, 1),
            LOSE_ANSWER,
            ("backup", 0, 1),
            ("restore", 1, 1),
            ("push", 0, 1),
            ("deliver", 0, 1),
            ("answer", 0, 1),
            ("roll_back", 0, 1),
            *pulls(0),
            *pulls(0),
        ],
    ),
    "set back twice behind the back, and the client is killed in between": (
        ASYNCHRONOUS,
        [
            ("backup", 0, 1),
            *goes_on(1, 2),
            ("roll_back", 0, 1),
            *pulls(0),
            ("kill_client", 0, 1),
            *pulls(0),
            *pulls(0),
            *goes_on(4, 5),
            ("roll_back", 0, 1),
            ("kill_server", 0, 1),
            ("start_server", 0, 1),
            *pulls(1),
            *pulls(1),
            *pulls(0),
        ],
    ),
    "a client that only looked on finds out that the server was set back": (
        ASYNCHRONOUS,
        [
            ("backup", 0, 1),
            *goes_on(1, 2),
            *pulls(2),
            *pulls(2),
            ("roll_back", 0, 1),
            *pulls(2),
            *pulls(2),
        ],
    ),
    "a client that was killed finds out that the server was set back": (
        Setting(real_disks=True),
        [
            ("backup", 0, 1),
            *goes_on(1, 2),
            ("kill_client", 0, 1),
            ("kill_client", 1, 1),
            ("roll_back", 0, 1),
            *pulls(0),
            *pulls(0),
            *pulls(1),
        ],
    ),
    "forged claims before, after and long after a restore": (
        ASYNCHRONOUS,
        [
            ("backup", 0, 1),
            *goes_on(1, 2),
            *goes_on(4, 5),
            *lies(40),
            ("restore", 0, 1),
            *lies(60),
            *pulls(0),
            *pulls(1),
            *lies(60),
            *goes_on(6, 8),
            *lies(60),
        ],
    ),
    "a discarded message whose client has trained on": (
        OVERLAPPING,
        [
            *trains(0),
            ("push", 0, 1),
            ("spoil", 0, 1),
            ("begin", 0, 1),
            ("deliver", 0, 1),
            ("answer", 0, 1),
            ("finish", 0, 2),
            *counts(0, 4),
        ],
    ),
    "a hasty client that trains on": (
        OVERLAPPING,
        [
            *trains(0),
            ("push", 0, 1),
            ("begin", 0, 1),
            ("finish", 0, 5),
            ("deliver", 0, 1),
            ("answer", 0, 1),
            *counts(0, 4),
        ],
    ),
    "restored behind a client that trains on": (
        OVERLAPPING,
        [
            ("backup", 0, 1),
            *counts(0),
            *trains(0, 2),
            ("push", 0, 1),
            ("restore", 0, 1),
            *pulls(0),
            *counts(0, 4),
        ],
    ),
    "a discarded message is sent again after a restart": (
        ASYNCHRONOUS,
        [
            *trains(0),
            ("push", 0, 1),
            ("spoil", 0, 1),
            ("deliver", 0, 1),
            LOSE_ANSWER,
            ("kill_server", 0, 1),
            ("start_server", 0, 1),
            ("push", 0, 1),
            ("deliver", 0, 1),
            ("answer", 0, 1),
            *counts(0, 2),
        ],
    ),
    "the memory is flushed, and the client is killed before it leaves": (
        ASYNCHRONOUS,
        [
            *counts(0),
            ("flush", 0, 1),
            ("push", 0, 1),
            ("deliver", 0, 1),
            ("kill_client", 0, 1),
            ("push", 0, 1),
            ("deliver", 0, 1),
            ("answer", 0, 1),
            ("answer", 0, 1),
            ("leave", 0, 1),
        ],
    ),
    "one more message of the same client reaches a cohort after a restart": (
        SYNCHRONOUS,
        [
            *counts(0),
            ("kill_server", 0, 1),
            ("start_server", 0, 1),
            *counts(0, 2),
            *counts(1, 4),
            *counts(2, 5),
        ],
    ),
    "a cohort is extended at its deadline": (
        Setting(synchronous=True, deadline=True, minimum=2),
        [
            *counts(0),
            *trains(1, 2),
            *(("timer", number, 1) for number in range(4)),
            *counts(0, 4),
            ("push", 1, 1),
            ("deliver", 0, 1),
            ("answer", 0, 1),
        ],
    ),
    "a client leaves while its cohort trains": (
        SYNCHRONOUS,
        [
            ("fetch", 1, 1),
            *counts(0),
            ("flush", 0, 1),
            ("push", 0, 1),
            ("deliver", 0, 1),
            ("answer", 0, 1),
            *counts(1, 2),
            *counts(2, 4),
            ("push", 0, 1),
            ("deliver", 0, 1),
            ("answer", 0, 1),
        ],
    ),
    "a client leaves with what its memory holds": (
        ASYNCHRONOUS,
        [
            *counts(0),
            *counts(1, 2),
            ("flush", 0, 1),
            ("push", 0, 1),
            ("deliver", 0, 1),
            ("answer", 0, 1),
            ("leave", 0, 1),
        ],
    ),
    "a copy of a pull is late, and its client trains on another version": (
        ASYNCHRONOUS,
        [
            ("pull", 0, 1),
            ("duplicate", 0, 1),
            ("deliver", 0, 1),
            ("answer", 0, 1),
            ("begin", 0, 1),
            *counts_past(1, 1),
            *counts_past(2, 2),
            ("deliver", 0, 1),
            ("finish", 0, 4),
            ("push", 0, 1),
            ("deliver", 0, 1),
            ("answer", 0, 1),
        ],
    ),
    "a task of a history that was left is shown in the next": (
        ASYNCHRONOUS,
        [
            ("backup", 0, 1),
            *intrudes(6),
            ("restore", 0, 1),
            *intrudes(40),
        ],
    ),
    "a client missed many messages, each of which was rounded": (
        Setting(downlink="sign_l1"),
        [
            *goes_on(1, 2),
            *goes_on(4, 5),
            *goes_on(6, 8),
            *goes_on(9, 12),
            *goes_on(13, 15),
            *pulls(2),
        ],
    ),
}
