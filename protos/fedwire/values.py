"""Converts what messages of the wire are made of: names, answers, measurements.

A peer's message is a claim: each reader raises a ``ProtocolError`` that says what is
wrong with it.
"""

import math
from collections.abc import Sequence

import numpy as np

from fedcore.errors import ProtocolError
from fedcore.labels import MOST_CLASSES
from fedcore.measured import Device, Measured
from fedcore.protocol import (
    MOST_COUNTED,
    NOTHING_SETTLED,
    Answer,
    Epoch,
    ModelName,
    Plan,
    Proof,
    Settled,
    Verdict,
)
from fedcore.typing import Counts, Seconds
from fedwire.v1 import federation_pb2 as pb

MOST_WAIT: Seconds = 86_400.0  # for which a peer may ask
_ANSWERS: dict[Verdict | Answer, int] = {
    answer: pb.Answer.Value(f"ANSWER_{answer.name}") for answer in (*Verdict, *Answer)
}
_MEANINGS = {code: meaning for meaning, code in _ANSWERS.items()}


def epoch_number(epoch: Epoch) -> int:
    """Returns the name of a history as a number, the form in which it travels."""
    return int(epoch, 16)


def epoch_name(number: int) -> Epoch:
    """Returns the name of a history, from the number that travels."""
    return f"{number:016x}"


def digest_bytes(digest: str) -> bytes:
    """Returns a digest as bytes, the form in which it travels."""
    return bytes.fromhex(digest)


def model_name(name: ModelName | None) -> pb.ModelName | None:
    """Returns a model's name as a message of the wire; None without one."""
    if name is None:
        return None
    return pb.ModelName(epoch=epoch_number(name.epoch), version=name.version)


def read_model_name(message: pb.ModelName) -> ModelName:
    """Returns a model's name, from a message of the wire."""
    return ModelName(epoch_name(message.epoch), message.version)


def answer_code(answer: Verdict | Answer) -> pb.Answer:
    """Returns the code of an answer on the wire."""
    return _ANSWERS[answer]  # type: ignore[return-value]


def read_answer(code: int) -> Verdict | Answer:
    """Returns the answer that a code stands for.

    Raises:
        ProtocolError: the code is unknown.
    """
    if code not in _MEANINGS:
        raise ProtocolError(f"unknown answer {code}; the peer may be newer")
    return _MEANINGS[code]


def read_verdict(code: int) -> Verdict:
    """Returns the verdict that a code stands for.

    Raises:
        ProtocolError: it stands for none.
    """
    answer = read_answer(code)
    if not isinstance(answer, Verdict):
        raise ProtocolError(f"expected a verdict, got {answer}")
    return answer


def read_settled(seq: int, code: int, proof: Proof = 0) -> Settled:
    """Returns a message's verdict as a client knows it; of message 0 there is none.

    Raises:
        ProtocolError: the code stands for no verdict.
    """
    return Settled(seq, read_verdict(code), proof) if seq else NOTHING_SETTLED


def settled_code(settled: Settled) -> pb.Answer:
    """Returns the code of a verdict that a client knows, or that of none."""
    if settled.verdict is None:
        return pb.ANSWER_UNSPECIFIED
    return answer_code(settled.verdict)


def read_seconds(told: float) -> Seconds:
    """Returns a time for which a peer asks to wait, as far as anybody can wait."""
    return min(max(0.0, told), MOST_WAIT) if math.isfinite(told) else 0.0


def device_of(device: Device | None) -> pb.Device | None:
    """Returns the facts of a device as a message of the wire; None without any."""
    return None if device is None else pb.Device(**device._asdict())


def read_device(message: pb.Device) -> Device:
    """Returns the facts of a device; those that are not told are None."""
    facts = {
        name: getattr(message, name) if message.HasField(name) else None
        for name in Device._fields[1:]
    }
    return Device(message.model, **facts)


def measured_of(measured: Measured | None) -> pb.Measured | None:
    """Returns what a training took as a message of the wire; None if not measured."""
    if measured is None:
        return None
    samples, seconds, joules, device = measured
    return pb.Measured(
        samples=samples, seconds=seconds, joules=joules, device=device_of(device)
    )


def read_measured(message: pb.Measured) -> Measured:
    """Returns what a training took; what is not told is None."""
    return Measured(
        message.samples,
        message.seconds if message.HasField("seconds") else None,
        message.joules if message.HasField("joules") else None,
        read_device(message.device) if message.HasField("device") else None,
    )


def plan_of(plan: Plan | None) -> pb.Plan | None:
    """Returns what a client announces as a message of the wire; None without a plan."""
    if plan is None:
        return None
    counts = [] if plan.counts is None else plan.counts.tolist()
    return pb.Plan(
        samples=plan.samples, counts=counts, has_counts=plan.counts is not None
    )


def read_plan(message: pb.Plan) -> Plan:
    """Returns what a client announces.

    Raises:
        ProtocolError: a number is out of range.
    """
    if not 1 <= message.samples <= MOST_COUNTED:
        raise ProtocolError(
            f"a plan of {message.samples} samples; expected 1 to {MOST_COUNTED}"
        )
    if len(message.counts) > MOST_CLASSES:
        raise ProtocolError(
            f"a plan with {len(message.counts)} label counts; expected up to "
            f"{MOST_CLASSES}"
        )
    counts = read_counts(message.counts) if message.has_counts else None
    return Plan(message.samples, counts)


def read_counts(sent: Sequence[int]) -> Counts:
    """Returns label counts (C,).

    Raises:
        ProtocolError: one of them is out of range.
    """
    if any(count > MOST_COUNTED for count in sent):
        raise ProtocolError("a label count is out of range")
    return np.array(sent, np.int64)
