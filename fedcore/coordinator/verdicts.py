"""Decides on an update that has no verdict yet."""

import math
from traceback import extract_tb

from fedcore.coordinator.opened import Opened, open_update
from fedcore.coordinator.records import Decided
from fedcore.coordinator.state import ServerState
from fedcore.coordinator.updates import size_of
from fedcore.errors import PayloadError
from fedcore.labels import MOST_CLASSES
from fedcore.payloads import Payload, magnitude
from fedcore.protocol import LARGEST, LARGEST_SUM, MOST_COUNTED, Push, Verdict
from fedcore.text import kept_metrics
from fedcore.typing import Bytes, Counts

LONGEST_REASON = 200  # characters of what an exception says


def judge(
    push: Push, state: ServerState, opened: Opened | None = None
) -> tuple[Decided, Payload | None]:
    """Decides on an update; changes no state.

    An update at which a decoder or a policy raises is rejected. Without a verdict, its
    client would send it again for ever.

    Args:
        push: the update.
        state: of the server.
        opened: the payload, if it was read before.

    Returns:
        The record of the decision, and the payload if the update is accepted.
    """
    payload: Payload | None = None
    weight = 0.0
    try:
        opened = opened or open_update(push.payload, state.algorithm.spec)
        payload = opened.payload
        if payload is None:
            raise opened.error or PayloadError("no payload")
        _check_claims(push, payload)
        absurd = opened.absurd or _beyond_sums(push, payload, state)
        verdict, reason, weight = _decide(push, absurd, state)
    except PayloadError as error:
        payload, verdict, reason = None, Verdict.REJECTED_MALFORMED, str(error)
    except Exception as error:  # noqa: BLE001 -- any error rejects the update
        return quarantined(push, state, f"judging it raised {_words(error)}"), None
    kept = b"" if payload is None else push.payload
    counts = None if payload is None else push.counts
    record = _decided(push, state, verdict, reason, weight, kept, counts)
    return record, payload if verdict is Verdict.ACCEPTED else None


def quarantined(push: Push, state: ServerState, reason: str) -> Decided:
    """Rejects an update that cannot be judged; the record keeps its bytes."""
    malformed = Verdict.REJECTED_MALFORMED
    return _decided(push, state, malformed, reason, 0.0, push.payload, None)


def _decided(
    push: Push,
    state: ServerState,
    verdict: Verdict,
    reason: str,
    weight: float,
    payload: Bytes,
    counts: Counts | None,
) -> Decided:
    return Decided(
        at=state.at,
        cid=push.cid,
        seq=push.seq,
        digest=push.digest,
        base=push.base.version,
        staleness=state.version - push.base.version,
        verdict=verdict,
        weight=weight,
        reason=reason,
        samples=push.samples,
        steps=push.steps,
        update_norm=_finite(push.update_norm),
        memory_norm=_finite(push.memory_norm),
        oldest=push.oldest.version
        if push.oldest is not None and push.oldest.epoch == state.epoch
        else None,
        counts=counts,
        loss=push.loss if push.loss is not None and math.isfinite(push.loss) else None,
        nbytes=len(push.payload),
        payload=payload,
        measured=push.measured and push.measured.checked(),
        metrics=kept_metrics(push.metrics),
    )


def _decide(push: Push, absurd: str, state: ServerState) -> tuple[Verdict, str, float]:
    if absurd:
        return Verdict.DISCARDED, absurd, 0.0
    measured = push.measured and push.measured.checked()
    size = size_of(push.samples, measured)
    base, samples, steps = push.base.version, push.samples, push.steps
    return judge_update(state, push.cid, base, samples, steps, push.counts, size)


def judge_update(
    state: ServerState,
    cid: str,
    base: int,
    samples: int,
    steps: int,
    counts: Counts | None,
    size: int,
) -> tuple[Verdict, str, float]:
    """The verdict on an update with finite values, the reason, and the weight λ.

    Args:
        state: the state of the server.
        cid: of its client.
        base: the version that the update was trained on.
        samples: the number of samples that it was trained on.
        steps: the number of steps that its client claims.
        counts: its label counts.
        size: of its task, in samples that were used.
    """
    algorithm, staleness = state.algorithm, state.version - base
    if staleness > state.limit:
        reason = f"{_versions(staleness)} late, the limit is {state.limit}"
        return Verdict.REJECTED_STALE, reason, 0.0
    if "gap" in algorithm.aggregator.needs and base not in state.bases:
        reason = f"the server no longer has version {base} to mix with"
        return Verdict.REJECTED_STALE, reason, 0.0
    if state.closed:
        return Verdict.REJECTED_CLOSED, f"the run has ended: {state.closed}", 0.0
    if state.learnt.plans.of(cid, base) is None:  # else it was judged before
        refusal = algorithm.update_filter.refusal(
            state.learnt.update_filter, size, counts
        )
        if refusal is not None:
            return Verdict.REJECTED_POLICY, refusal, 0.0
    weight = algorithm.staleness.weigh(state.learnt.staleness, staleness, counts)
    return Verdict.ACCEPTED, _remark(state, cid, base, samples, steps), weight


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


def _remark(state: ServerState, cid: str, base: int, samples: int, steps: int) -> str:
    """A remark on an update that counts for fewer samples or steps than it claims."""
    config, remarks = state.algorithm.config, []
    counted = config.counted(samples)
    if config.weigh_by == "samples" and counted != samples:
        remarks.append(f"{counted} of its {samples} samples (algorithm.samples_cap)")
    if "pace" in state.algorithm.aggregator.needs:
        most = config.most_steps(samples, base, state.settings_of(cid))
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


def _words(error: Exception) -> str:
    """The type, message and place of an exception, in one line."""
    last = extract_tb(error.__traceback__)[-1]
    where = f"{last.name}, line {last.lineno}"
    return f"{type(error).__name__}: {str(error)[:LONGEST_REASON]} ({where})"


def _finite(claim: float) -> float:
    return claim if math.isfinite(claim) else 0.0


def _versions(count: int) -> str:
    return "1 version" if count == 1 else f"{count} versions"
