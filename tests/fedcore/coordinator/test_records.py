"""How records, events and actions are made, and which of them must be on the disk."""

from dataclasses import fields
from typing import Any, get_args

import pytest

from fedcore.coordinator.actions import Action
from fedcore.coordinator.events import (
    ClientEnrolled,
    Decided,
    Enrolled,
    Event,
    Failed,
    Leased,
    Lost,
    Record,
    ServerStarted,
    ServerStopped,
    Skipped,
    Tallied,
    Timer,
    Unproved,
)
from fedcore.protocol import Verdict

KINDS: list[type] = [*get_args(Record), *get_args(Event), *get_args(Action)]


@pytest.mark.parametrize("kind", KINDS, ids=[kind.__name__ for kind in KINDS])
def test_fields_are_named_where_one_is_made(kind: type) -> None:
    told = {field.name: number for number, field in enumerate(fields(kind))}
    made = kind(**told)
    assert {name: getattr(made, name) for name in told} == told
    assert made == kind(**told)
    assert not hasattr(made, "__dict__")  # there are many of them
    with pytest.raises(TypeError):
        kind(*told.values())


def test_only_what_tells_the_story_of_a_run_may_be_lost() -> None:
    lazy = {kind for kind in get_args(Record) if not kind.durable}
    assert lazy == {
        *(Leased, Failed, Skipped, Lost, Unproved, Tallied),
        *(ServerStarted, ServerStopped),
    }


def test_a_client_is_one_of_one_and_nobodys_unless_that_is_told() -> None:
    enrolled = ClientEnrolled(at=0.0, cid="a", name="ann")
    assert (enrolled.role, enrolled.index, enrolled.count) == ("trainer", 0, 1)
    assert (enrolled.owner, enrolled.certified) == ("", False)
    record = Enrolled(at=0.0, cid="a", name="ann", role="trainer")
    assert (record.index, record.count, record.owner) == (0, 1, "")
    assert Timer("stop") == ("stop", "", 0)


@pytest.mark.parametrize(
    ("payload", "verdict", "was_read"),
    [
        (b"values", Verdict.ACCEPTED, True),
        (b"values", Verdict.REJECTED_STALE, True),
        (b"values", Verdict.REJECTED_MALFORMED, False),
        (b"", Verdict.ACCEPTED, False),
    ],
)
def test_an_update_was_read_if_its_payload_is_kept(
    payload: bytes, verdict: Verdict, was_read: bool
) -> None:
    told: dict[str, Any] = {field.name: 0 for field in fields(Decided)}
    told |= {"payload": payload, "verdict": verdict}
    assert Decided(**told).was_read is was_read
