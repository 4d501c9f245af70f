"""The texts in a server's answers can be shown as they are."""

from typing import Any

import pytest
from fedwire.frames import read_reply, reply_frame
from fedwire.service import UNARY
from fedwire.texts import clean
from fedwire.v1 import federation_pb2 as pb
from google.protobuf.message import Message

from fedcore.text import LONG_SENTENCE, from_peer, is_printable

HOSTILE = "\x1b[2J\u202e\r\n" + "x" * 100_000
ANSWERS = [
    *(reply for _, reply in UNARY.values()),
    pb.PullReply,
    pb.PushReply,
    pb.TrialReply,
    pb.Notice,
]
FOR_PROGRAMS = {"algorithm", "json"}


def filled(kind: Any) -> Any:
    """An answer in which every text is a hostile one, also those inside of it."""
    answer = kind()
    for field in kind.DESCRIPTOR.fields:
        if field.message_type is not None:
            inner = filled(getattr(pb, field.message_type.name))
            place = getattr(answer, field.name)
            if isinstance(place, Message):
                place.CopyFrom(inner)
            else:
                place.extend([inner, inner])
        elif field.type == field.TYPE_STRING:
            setattr(answer, field.name, HOSTILE)
    return answer


def texts(answer: Any) -> list[tuple[str, str]]:
    """The names and values of all texts in an answer."""
    found = []
    for field, value in answer.ListFields():
        if isinstance(value, str):
            found.append((field.name, value))
        elif field.message_type is not None:
            for each in [value] if isinstance(value, Message) else value:
                found += texts(each)
    return found


@pytest.mark.parametrize("kind", ANSWERS, ids=lambda kind: kind.DESCRIPTOR.name)
def test_every_text_of_an_answer_is_printable_and_short(kind: Any) -> None:
    hostile = filled(kind)
    before = texts(hostile)
    after = texts(clean(hostile))
    assert [name for name, _ in before] == [name for name, _ in after]
    for name, text in after:
        if name in FOR_PROGRAMS:
            assert text == HOSTILE
        else:
            assert is_printable(text)
            assert len(text) <= LONG_SENTENCE


def test_there_are_texts_in_most_answers() -> None:
    assert sum(bool(texts(filled(kind))) for kind in ANSWERS) >= 7


def test_what_people_may_read_stays_as_it_is() -> None:
    told = pb.PushReply(reason="the update is 3 versions late; größer geht's nicht")
    assert clean(told).reason == told.reason
    assert from_peer(told.reason) == told.reason


def test_the_answer_to_a_pull_is_cleaned_when_it_is_read() -> None:
    reply = read_reply(reply_frame(pb.PullReply(reason=HOSTILE)))
    assert reply.reason.startswith("\\x1b[2J\\u202e\\r\\nxxx")
    assert len(reply.reason) == LONG_SENTENCE
