"""Checks the claims of a peer: its name, its version of this run, its evaluations."""

import math

from fedcore.coordinator.actions import Refuse
from fedcore.coordinator.clients import ClientRow
from fedcore.coordinator.events import ClientEnrolled, ModelEvaluated
from fedcore.coordinator.records import Enrolled, Evaluated
from fedcore.coordinator.state import ServerState
from fedcore.proofs import Authenticator
from fedcore.protocol import MOST_COUNTED, Answer, Pull
from fedcore.user_code import LONG_TEXT


def enrolled(event: ClientEnrolled, state: ServerState) -> Enrolled | Refuse | None:
    """The record of an enrolment, or its refusal; None if it changes nothing.

    A client that has left cannot come back, nor one that is evicted until the operator
    lets it, and a name belongs to its first owner.
    """
    row = state.clients.get(event.cid)
    if row is not None and row.left:
        return Refuse(cid=event.cid, nonce=0, answer=Answer.OBSOLETE)
    if eviction(event.cid, event.name, state) is not None:
        return Refuse(cid=event.cid, nonce=0, answer=Answer.UNKNOWN)
    owner = state.roster.owners.get(event.name, "")
    if owner not in ("", event.owner) and not event.certified:
        return Refuse(cid=event.cid, nonce=0, answer=Answer.UNKNOWN)
    claimed = (event.name, event.role, event.owner, event.index, event.count)
    if row is not None and (row.name, row.role, owner, *row.place) == claimed:
        return None
    return Enrolled(
        at=state.at,
        cid=event.cid,
        name=event.name,
        role=event.role,
        index=event.index,
        count=event.count,
        owner=event.owner,
    )


def eviction(cid: str, name: str, state: ServerState) -> str | None:
    """The reason for which a client is shut out, by its id or by its name; or None."""
    row = state.clients.get(cid)
    if row is not None and row.evicted is not None:
        return row.evicted
    return state.roster.evicted.get(name)


def later_states(
    row: ClientRow, pull: Pull, state: ServerState, proofs: Authenticator
) -> list[bool]:
    """For each claim of a later state in a pull, whether it is proved.

    No client can know a later state of this history unless the server was set back.
    """
    claims = [
        proofs.confirms(left.proof, proofs.left(left.epoch))
        for left in pull.abandoned
        if left.epoch == state.epoch
    ]
    if pull.epoch != state.epoch:
        return claims
    held, settled = pull.held, pull.settled
    if held is not None and held.version > state.version:
        made = proofs.version(state.epoch, held.version)
        claims.append(proofs.confirms(held.proof, made))
    if row.contradicts(settled):
        made = proofs.verdict(state.epoch, row.cid, settled.seq, settled.verdict)
        claims.append(proofs.confirms(settled.proof, made))
    return claims


def evaluated(event: ModelEvaluated, state: ServerState) -> Evaluated | None:
    """The record of an evaluation, without values that are not finite.

    None if the client is unknown or evicted, or the version unknown.
    """
    row = state.clients.get(event.cid)
    if row is None or row.evicted is not None:
        return None
    if not 0 <= event.version <= state.version:
        return None
    return Evaluated(
        at=state.at,
        cid=event.cid,
        version=event.version,
        values={k: float(v) for k, v in event.values.items() if math.isfinite(v)},
        samples=min(max(0, event.samples), MOST_COUNTED),
        text=event.text[:LONG_TEXT],
    )
