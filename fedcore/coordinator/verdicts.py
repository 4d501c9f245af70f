"""Decides on an update that has no verdict yet."""

import math
from traceback import extract_tb

from fedcore.coordinator.opened import Opened, open_update
from fedcore.coordinator.records import Decided
from fedcore.coordinator.state import ServerState
from fedcore.coordinator.updates import (
    Arrived,
    Decision,
    Flaw,
    Update,
    size_of,
)
from fedcore.errors import PayloadError
from fedcore.labels import MOST_CLASSES
from fedcore.payloads import Payload, magnitude
from fedcore.protocol import LARGEST, LARGEST_SUM, MOST_COUNTED, Push, Verdict
from fedcore.text import kept_metrics

LONGEST_REASON = 200  # characters of what an exception says


def judge(update: Update, state: ServerState) -> Decision:
    """Decides what an update counts for; changes no state.

    Args:
        update: which has arrived.
        state: of the server.

    Raises:
        Exception: a policy raised.
    """
    base, staleness = update.base, state.version - update.base
    if update.flaw is not None:
        return Decision(update.flaw.verdict, 0.0, staleness, update.flaw.reason)
    algorithm, cid = state.algorithm, update.client
    if staleness > state.limit:
        reason = f"{_versions(staleness)} late, the limit is {state.limit}"
        return Decision(Verdict.REJECTED_STALE, 0.0, staleness, reason)
    if "gap" in algorithm.aggregator.needs and base not in state.bases:
        reason = f"the server no longer has version {base} to mix with"
        return Decision(Verdict.REJECTED_STALE, 0.0, staleness, reason)
    if state.closed:
        reason = f"the run has ended: {state.closed}"
        return Decision(Verdict.REJECTED_CLOSED, 0.0, staleness, reason)
    if state.learnt.plans.of(cid, base) is None:  # else it was judged before
        size = size_of(update.samples, update.measured)
        refusal = algorithm.update_filter.refusal(
            state.learnt.update_filter, size, update.counts
        )
        if refusal is not None:
            return Decision(Verdict.REJECTED_POLICY, 0.0, staleness, refusal)
    weight = algorithm.staleness.weigh(state.learnt.staleness, staleness, update.counts)
    return Decision(Verdict.ACCEPTED, weight, staleness, _remark(update, state))


def read_update(
    push: Push, state: ServerState, opened: Opened | None, *, has_task: bool = True
) -> Arrived:
    """Reads the update of a push, and finds what is wrong with it; never raises.

    Args:
        push: which has arrived.
        state: of the server.
        opened: the payload, if it was read before.
        has_task: whether a task stands behind it.
    """
    payload, flaw = None, None
    try:
        opened = opened or open_update(push.payload, state.algorithm.spec)
        payload = opened.payload
        if payload is None:
            raise opened.error or PayloadError("no payload")
        _check_claims(push, payload)
        absurd = opened.absurd or _beyond_sums(push, payload, state)
        if absurd:
            flaw = Flaw(Verdict.DISCARDED, absurd)
    except PayloadError as error:
        payload, flaw = None, Flaw(Verdict.REJECTED_MALFORMED, str(error))
    except Exception as error:  # noqa: BLE001 -- any error rejects the update
        payload, flaw = None, raised(error)
    folded = state.remembers and _oldest(push, state) is not None
    return arrived(push, flaw, has_task=has_task, payload=payload, folded=folded)


def raised(error: Exception) -> Flaw:
    """Returns the flaw of an update at which a decoder or a policy raised.

    Without a verdict, its client would send it again for ever.
    """
    last = extract_tb(error.__traceback__)[-1]
    where = f"{last.name}, line {last.lineno}"
    words = f"{type(error).__name__}: {str(error)[:LONGEST_REASON]} ({where})"
    return unread_flaw(f"judging it raised {words}")


def unread_flaw(reason: str) -> Flaw:
    """Returns the flaw of an update that cannot be handled; its bytes are kept."""
    return Flaw(Verdict.REJECTED_MALFORMED, reason, is_kept=True)


def arrived(
    push: Push,
    flaw: Flaw | None,
    *,
    has_task: bool,
    payload: Payload | None = None,
    folded: bool = False,
) -> Arrived:
    """Returns the update of a push; it has no payload if it is not read for its flaw.

    Args:
        push: which has arrived.
        flaw: what is wrong with it.
        has_task: whether a task stands behind it.
        payload: its values.
        folded: whether it holds mass of updates that were rejected.
    """
    return Arrived(
        payload=payload,
        base=push.base.version,
        samples=push.samples,
        counts=None if payload is None else push.counts,
        steps=push.steps,
        folded=folded,
        client=push.cid,
        loss=_finite(push.loss),
        measured=push.measured and push.measured.checked(),
        flaw=flaw,
        task=has_task,
    )


def record_of(
    push: Push, update: Arrived, decision: Decision, state: ServerState
) -> Decided:
    """Returns the record of a decision.

    Args:
        push: which was decided on.
        update: what was read of it.
        decision: on it.
        state: of the server, at the version at which it was decided.
    """
    flaw = update.flaw
    is_kept = update.payload is not None or (flaw is not None and flaw.is_kept)
    return Decided(
        at=state.at,
        cid=push.cid,
        seq=push.seq,
        digest=push.digest,
        base=push.base.version,
        staleness=decision.staleness,
        verdict=decision.verdict,
        weight=decision.weight,
        reason=decision.reason,
        samples=push.samples,
        steps=push.steps,
        update_norm=_finite(push.update_norm) or 0.0,
        memory_norm=_finite(push.memory_norm) or 0.0,
        oldest=_oldest(push, state),
        counts=update.counts,
        loss=update.loss,
        nbytes=len(push.payload),
        payload=push.payload if is_kept else b"",
        measured=update.measured,
        metrics=kept_metrics(push.metrics),
        task=update.task,
    )


def _beyond_sums(push: Push, payload: Payload, state: ServerState) -> str:
    """Why the sums of a version could overflow; empty if they cannot.

    All clients together, each with so many samples and values, must stay in float32.
    """
    config = state.algorithm.config
    samples = config.counted(push.samples)
    times = samples * max(config.buffer, state.roster.trainers)
    if "pace" in state.algorithm.aggregator.needs:
        own = state.settings_of(push.cid)
        times *= config.most_steps(push.samples, push.base.version, own)
    if LARGEST * times <= LARGEST_SUM or magnitude(payload) * times <= LARGEST_SUM:
        return ""
    return f"the update is absurdly large to count for {samples} samples"


def _remark(update: Update, state: ServerState) -> str:
    """A remark on an update that counts for fewer samples or steps than it claims."""
    config, remarks, samples = state.algorithm.config, [], update.samples
    counted = config.counted(samples)
    if config.weigh_by == "samples" and counted != samples:
        remarks.append(f"{counted} of its {samples} samples (algorithm.samples_cap)")
    if "pace" in state.algorithm.aggregator.needs:
        own, steps = state.settings_of(update.client), update.steps
        most = config.most_steps(samples, update.base, own)
        if steps > most:
            remarks.append(f"{most} of its {steps} steps, more than it can be given")
    return f"counts for {' and for '.join(remarks)}" if remarks else ""


def _check_claims(push: Push, payload: Payload) -> None:
    """Checks the numbers of a peer.

    Raises:
        PayloadError: one of them is impossible.
    """
    if payload.format == "values":
        raise PayloadError("new values of a model are no update")
    if not 1 <= push.samples <= MOST_COUNTED:
        raise PayloadError(
            f"an update of {push.samples} samples; expected 1 to {MOST_COUNTED}"
        )
    if push.base.version < 0:
        raise PayloadError(f"an update based on version {push.base.version}")
    if push.counts is not None and (
        len(push.counts) > MOST_CLASSES
        or bool(((push.counts < 0) | (push.counts > MOST_COUNTED)).any())
    ):
        raise PayloadError(
            f"label counts must be 0 to {MOST_COUNTED}, for up to {MOST_CLASSES} "
            "classes"
        )


def _oldest(push: Push, state: ServerState) -> int | None:
    """The oldest version of this history whose mass was folded back into an update."""
    oldest = push.oldest
    return oldest.version if oldest and oldest.epoch == state.epoch else None


def _finite(claim: float | None) -> float | None:
    return claim if claim is not None and math.isfinite(claim) else None


def _versions(count: int) -> str:
    return "1 version" if count == 1 else f"{count} versions"
