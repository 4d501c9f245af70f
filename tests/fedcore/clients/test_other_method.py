"""Clients of a run with another client algorithm drop what the earlier one kept."""

import json
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from fedclient.state.saved_state import facts_of, state_of, trees_of
from fedcore.algorithm import Algorithm
from fedcore.clients import join_kept, split_kept
from fedcore.merging import PARAMETER
from fedcore.params import ParamSpec, place_tensors
from fedcore.participant import Participant, ParticipantState
from fedcore.participant.machine import take_over
from fedcore.recipes import FedBuff
from fedcore.rng import Key
from fedcore.training import Trainer, initial_model
from fedcore.typing import State
from fedcore.workload import Client
from tests.fedcore.workloads import X, Y, line

KEEPING: dict[str, dict[str, Any]] = {
    "velocity": {"kind": "local_sgd", "momentum": 0.9, "keep_momentum": True},
    "moments": {"kind": "local_adam", "keep_moments": True},
    "personal model": {"kind": "ditto"},
    "own model": {"kind": "overlap_local_sgd", "momentum": 0.9},
    "priorities": {"kind": "prioritised_sgd"},
}
WORKLOAD = line()
MODEL = WORKLOAD.flat()
CLIENT = Client("client-0", 0, 2, {})


def algorithm(name: str) -> Algorithm:
    own = {"lr": 0.05, "steps": 3, "batch": 2, **KEEPING[name]}
    return FedBuff.model_validate({"client": own}).build(MODEL.spec)


def trained(with_: Algorithm, kept: State) -> Any:
    trainer = Trainer(WORKLOAD, with_, model=MODEL)
    start_D = initial_model(MODEL, 0)
    return trainer.train(start_D, (X, Y), Key.root(1), kept, 1.0, 0, CLIENT)


@pytest.mark.parametrize(("old", "new"), [*permutations(KEEPING, 2)])
def test_another_client_algorithm_begins_as_if_nothing_was_kept(
    old: str, new: str
) -> None:
    state = Participant(algorithm(old), ParticipantState("a", "run", "0" * 16)).state
    kept = trained(algorithm(old), None).kept
    state = Participant(algorithm(new), _on_disk(state, kept)).state
    assert state.kept is None
    assert state.keeper == KEEPING[new]["kind"]
    trained(algorithm(new), state.kept)


@pytest.mark.parametrize("name", KEEPING)
def test_the_same_one_goes_on_with_what_it_kept(name: str) -> None:
    state = Participant(algorithm(name), ParticipantState("a", "run", "0" * 16)).state
    kept = trained(algorithm(name), None).kept
    saved = _on_disk(state, kept)
    assert np.array_equal(Participant(algorithm(name), saved).state.kept, kept)


def test_the_values_of_local_tensors_stay() -> None:
    own = place_tensors([("head", (2,), PARAMETER)])
    spec = ParamSpec.of({"body": np.zeros(3)}, local=own)
    local_L = np.ones(2, np.float32)
    kept = join_kept(np.zeros(4, np.float32), local_L)
    state = ParticipantState("a", "run", "0" * 16, kept=kept, keeper="ditto")
    taken = take_over(FedBuff().build(spec), state)
    method, still_L = split_kept(taken.kept, local_L)
    assert method is None
    assert still_L is not None
    assert np.array_equal(still_L, local_L)


def _on_disk(state: ParticipantState, kept: State) -> ParticipantState:
    """The state as a client reads it that has kept this."""
    state = replace(state, kept=kept)
    trees, arrays = trees_of(state)
    facts = facts_of(state, trees, arrays)
    blobs = {name: array.tobytes() for name, array in arrays.items()}
    if state.memory_D is not None:
        blobs["memory"] = state.memory_D.tobytes()
    return state_of(json.loads(json.dumps(facts)), blobs, [])
