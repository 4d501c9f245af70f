"""The texts in a server's answers, which meet the terminals and logs of its clients."""

from typing import TypeVar

from google.protobuf.message import Message

from fedcore.text import from_peer

_FOR_PROGRAMS = ("algorithm", "json")  # fields that are parsed
Answer = TypeVar("Answer", bound=Message)


def clean(answer: Answer) -> Answer:
    """Makes the texts in an answer printable and short; returns the answer.

    Texts that programs read stay as they are.
    """
    for field, value in answer.ListFields():
        if isinstance(value, str):
            if field.name not in _FOR_PROGRAMS:
                setattr(answer, field.name, from_peer(value))
        elif isinstance(value, Message):
            clean(value)
        elif field.message_type is not None:
            for each in value:
                clean(each)
    return answer
