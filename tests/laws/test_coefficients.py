"""A part of an update counts as in its own task, whatever message brings it.

A message with an error memory also brings what those of earlier tasks left out. If the
server multiplied messages by a coefficient of their tasks, these parts would get one of
another task. Weights of the arrival, λ, a boost of new clients and the number of
samples, are outside of this law: a client knows neither λ nor its boost when it makes a
message, and they are meant for all of it; the samples of a client are the same in all
its tasks.
"""

from collections.abc import Sequence

import numpy as np
import pytest

from fedcore import payloads
from fedcore.aggregators import (
    AggregatorConfig,
    Contribution,
    DSSync,
    FedNova,
    FlexibleParticipation,
    WeightedMean,
)
from fedcore.clients import LocalSGD
from fedcore.compressors import CompressorConfig, ErrorFeedback, Identity, TopK
from fedcore.coordinator.rounds import make_update
from fedcore.coordinator.state import efforts
from fedcore.params import ParamSpec
from fedcore.participant import Participant, ParticipantState, Trained
from fedcore.payloads import Payload, dense_payload
from fedcore.protocol import Ack, ModelName, Push, Verdict
from fedcore.recipes import FedBuff
from fedcore.rng import Key
from fedcore.typing import Vector
from tests.laws.registered import name_of, named, variants

EPOCH, DIM, TASKS, SAMPLES = "0" * 16, 400, 24, 16
SPEC = ParamSpec.of({"w": np.zeros(DIM)})
CLIENT = LocalSGD(epochs=5, batch=SAMPLES)  # 5 steps a task
STEPS = [1 if task % 2 else 5 for task in range(TASKS)]
SCHEMES = [FlexibleParticipation(scheme=scheme) for scheme in ("A", "B", "C")]
LINEAR = [*SCHEMES, FedNova(), WeightedMean()]
FOR_ANY_CLIENT = [
    config for config in variants(AggregatorConfig) if not isinstance(config, DSSync)
]
MOMENTUM = CLIENT.model_copy(update={"momentum": 0.9})
TOP_K = ErrorFeedback(inner=TopK(ratio=0.05))


def recipe(
    aggregator: AggregatorConfig, uplink: CompressorConfig, client: LocalSGD = CLIENT
) -> FedBuff:
    return FedBuff(buffer=TASKS, client=client, aggregator=aggregator, uplink=uplink)


def contribution(config: FedBuff, push: Push, payload: Payload) -> Contribution:
    """What the server makes of a message."""
    update = make_update(push, None, has_task=True, payload=payload)
    known = efforts(config.build(SPEC), update, config.client)
    gap_D = np.zeros(DIM, np.float32)
    made = Contribution(payload, 1.0, 1.0, gap_D, push.cid, work=known["work"])
    return made._replace(effort=known.get("effort", 0.0), pace=known.get("pace", 0.0))


def train(client: Participant, task: int, steps: int) -> Push:
    """Returns the message of a task, which the server takes."""
    rng = np.random.default_rng(task)
    delta_D = steps * rng.normal(1, 1, DIM).astype(np.float32)
    yielded = Trained(delta_D, samples=SAMPLES, steps=steps)
    assert client.finish(yielded, ModelName(EPOCH, 0), Key.root(task))
    push = client.push()
    client.settle(Ack(seq=push.seq, digest=push.digest, answer=Verdict.ACCEPTED))
    return push


def messages(config: FedBuff, *, with_rest: bool) -> list[Contribution]:
    """A client's messages; the last one may bring all that is left in the memory."""
    client = Participant(config.build(SPEC), ParticipantState("0", "run", EPOCH))
    made = []
    for task, steps in enumerate(STEPS):
        push = train(client, task, steps)
        payload = payloads.unpack(push.payload, SPEC.sizes)
        memory_D = client.state.memory_D
        if with_rest and memory_D is not None and task + 1 == TASKS:
            payload = dense_payload(payloads.decode(payload) + memory_D)
        made.append(contribution(config, push, payload))
    return made


def aggregate(config: AggregatorConfig, updates: Sequence[Contribution]) -> Vector:
    rule = config.build()
    state = rule.init(DIM)
    for update in updates:
        state = rule.accumulate(state, update)
    return rule.finalize(state, sum(update.samples for update in updates))


@pytest.mark.parametrize("client", [CLIENT, MOMENTUM], ids=["plain", "momentum"])
@pytest.mark.parametrize("aggregator", LINEAR, ids=name_of)
def test_messages_and_the_last_memory_count_as_the_updates_do(
    aggregator: AggregatorConfig, client: LocalSGD
) -> None:
    exact, coded = (recipe(aggregator, each, client) for each in (Identity(), TOP_K))
    expected_D = aggregate(aggregator, messages(exact, with_rest=False))
    found_D = aggregate(aggregator, messages(coded, with_rest=True))
    np.testing.assert_allclose(found_D, expected_D, rtol=1e-4, atol=1e-5)


def test_a_coefficient_that_the_server_applied_would_count_for_too_much() -> None:
    made = messages(recipe(WeightedMean(), TOP_K), with_rest=True)
    whole_D = sum(payloads.decode(each.payload) / each.work for each in made)
    exact = messages(recipe(SCHEMES[2], Identity()), with_rest=False)
    right_D = sum(payloads.decode(each.payload) for each in exact)
    assert float(np.mean(whole_D / right_D)) > 1.2


@named(FOR_ANY_CLIENT)
def test_it_does_not_matter_which_of_two_tasks_brings_a_part(
    config: AggregatorConfig,
) -> None:
    algorithm = recipe(config, Identity())
    pushes = [
        train(
            Participant(algorithm.build(SPEC), ParticipantState(cid, "run", EPOCH)),
            task=0,
            steps=steps,
        )
        for cid, steps in (("0", 1), ("1", 5))
    ]
    parts = [dense_payload(np.full(DIM, x, np.float32)) for x in (8, -2)]
    one_D, other_D = (
        aggregate(config, [contribution(algorithm, *each) for each in pairs])
        for pairs in (
            zip(pushes, parts, strict=True),
            zip(pushes, reversed(parts), strict=True),
        )
    )
    np.testing.assert_allclose(one_D, other_D, rtol=1e-6)
