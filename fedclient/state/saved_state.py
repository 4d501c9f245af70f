"""Converts a client's state to facts and vectors for saving, and back."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from fedwire.convert import pull_request, push_header

from fedcore.labels import counts_array, counts_list
from fedcore.measured import read_measured
from fedcore.params import content_digest
from fedcore.participant import Ledger, ParticipantState, Pending, Sent
from fedcore.protocol import (
    Abandoned,
    Held,
    ModelName,
    Pull,
    Push,
    Settled,
    Verdict,
)
from fedcore.trees import Arrays, load_tree, save_tree
from fedcore.typing import Bytes, Vector
from fedrun.fields import wrong_field

_VECTORS = ("public", "memory", "residual", "payload")
TREES = ("kept", "recalled", "controlled")
"""The fields of a state in which methods keep nested tuples, dicts and arrays."""


def require_whole(state: ParticipantState) -> None:
    """Checks that a state has the right types and can be sent to a server.

    Raises:
        ValueError, TypeError: it is not valid, or the payload of the message in flight
            is
            not the written one, which the server would refuse again and again.
    """
    if wrong := wrong_field(state):
        raise ValueError(wrong)
    if any(not sent.seq >= 0 for sent in state.history):
        raise ValueError("a message of the history has no number")
    pull = Pull(
        cid=state.cid,
        nonce=0,
        epoch=state.epoch,
        held=state.held,
        abandoned=state.abandoned,
        settled=state.settled,
        history_from=state.seq,
    )
    pull_request(pull, b"")
    if state.pending is not None:
        push_header(state.pending.push, b"")
        push = state.pending.push
        if content_digest(push.payload) != push.digest:
            raise ValueError("the message in flight is not what was written")


def vectors_of(state: ParticipantState) -> dict[str, Any]:
    """Returns the vectors of a state, and the payload in flight or None."""
    pending = state.pending
    return {
        "public": state.public_D,
        "memory": state.memory_D,
        "residual": pending.residual_D if pending else None,
        "payload": pending.push.payload if pending else None,
    }


def trees_of(state: ParticipantState) -> tuple[dict[str, Any], Arrays]:
    """Returns the values that methods keep, for JSON, and their arrays by name."""
    arrays: Arrays = {}
    trees = {name: save_tree(getattr(state, name), name, arrays) for name in TREES}
    return trees, arrays


def facts_of(
    state: ParticipantState, trees: dict[str, Any], arrays: Arrays
) -> dict[str, Any]:
    """Returns a state without vectors and payloads, for JSON.

    Args:
        state: the state to save.
        trees: the values that methods keep, as :func:`trees_of` returned them.
        arrays: their arrays, which are saved beside the facts.
    """
    pending = None
    if state.pending is not None:
        bare = replace(state.pending.push, payload=b"")
        pending = asdict(bare) | {"payload": None, "counts": counts_list(bare.counts)}
    return {
        "cid": state.cid,
        "run_id": state.run_id,
        "epoch": state.epoch,
        "held": state.held,
        "seq": state.seq,
        "settled": state.settled,
        "pending": pending,
        "abandoned": state.abandoned,
        "oldest": state.oldest,
        **trees,
        "keeper": state.keeper,
        "arrays": {
            name: [array.dtype.str, *array.shape] for name, array in arrays.items()
        },
        "ledger": asdict(state.ledger),
        "patch": state.patch,
        "work": state.work,
        "complaint": state.complaint,
        "left": state.left,
    }


def state_of(
    facts: dict[str, Any],
    vectors: Mapping[str, Bytes],
    history: list[tuple[int, int, bytes]],
) -> ParticipantState:
    """Returns the state that was saved as these facts, vectors and sent messages.

    Raises:
        ValueError, KeyError, TypeError: they do not fit together.
    """
    pending = None
    if facts["pending"] is not None:
        push = facts["pending"]
        push["payload"] = vectors["payload"]
        push["base"] = ModelName(*push["base"])
        push["settled"] = _read_settled(push["settled"])
        push["oldest"] = ModelName(*push["oldest"]) if push["oldest"] else None
        push["counts"] = counts_array(push["counts"])
        push["measured"] = read_measured(push.get("measured"))
        pending = Pending(Push(**push), _vector(vectors.get("residual")))
    arrays = {
        name: _array(blob, *facts["arrays"][name])
        for name, blob in vectors.items()
        if name not in _VECTORS
    }
    return ParticipantState(
        cid=facts["cid"],
        run_id=facts["run_id"],
        epoch=facts["epoch"],
        held=Held(*facts["held"]) if facts["held"] else None,
        public_D=_vector(vectors.get("public")),
        memory_D=_vector(vectors.get("memory")),
        seq=facts["seq"],
        settled=_read_settled(facts["settled"]),
        pending=pending,
        history=tuple(
            Sent(seq, blob, bool(in_model)) for seq, in_model, blob in history
        ),
        abandoned=tuple(Abandoned(*each) for each in facts["abandoned"]),
        oldest=ModelName(*facts["oldest"]) if facts["oldest"] else None,
        kept=load_tree(None, facts["kept"], arrays),
        keeper=facts["keeper"],
        recalled=load_tree(None, facts["recalled"], arrays),
        ledger=Ledger(**facts["ledger"]),
        controlled=load_tree(None, facts["controlled"], arrays),
        patch=facts["patch"],
        work=facts["work"],
        complaint=facts["complaint"],
        left=facts["left"],
    )


def _read_settled(saved: list[Any]) -> Settled:
    seq, verdict, proof = saved
    return Settled(seq, None if verdict is None else Verdict(verdict), proof)


def _array(blob: Bytes, dtype: str, *shape: int) -> npt.NDArray[Any]:
    return np.frombuffer(blob, dtype).reshape(shape)


def _vector(blob: Bytes | None) -> Vector | None:
    return None if blob is None else np.frombuffer(blob, np.float32)
