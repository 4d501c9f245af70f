"""Any message that one side of the protocol can say, as Hypothesis draws it."""

import numpy as np
from hypothesis import strategies as st

from fedcore.measured import Device, Measured
from fedcore.protocol import (
    HISTORY,
    MOST_COUNTED,
    Abandoned,
    Ack,
    Answer,
    Held,
    ModelName,
    Patch,
    PatchKind,
    Plan,
    Pull,
    Push,
    Receipt,
    Reply,
    Settled,
    Task,
    Verdict,
)

uint32 = st.integers(0, 2**32 - 1)
uint64 = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**63, 2**64 - 1])
numbers = st.floats(allow_nan=False)
waits = st.floats(0, 86_400)
singles = st.floats(allow_nan=False, width=32)
epochs = st.integers(1, 2**64 - 1).map(lambda number: f"{number:016x}")
digests = st.binary(max_size=32).map(bytes.hex)
shares = st.just(1.0) | st.floats(0, 1e300, exclude_min=True)
names = st.text(max_size=20)
models = st.builds(ModelName, epochs, uint64)
verdicts = st.sampled_from(list(Verdict))
settled = st.just(Settled()) | st.builds(
    Settled, st.integers(1, 2**64 - 1), verdicts, st.just(0)
)
proved = st.just(Settled()) | st.builds(
    Settled, st.integers(1, 2**64 - 1), verdicts, uint64
)
abandoned = st.builds(Abandoned, epochs, uint64)
counts = st.none() | st.lists(st.integers(0, MOST_COUNTED), max_size=5).map(
    lambda given: np.array(given, np.int64)
)

unknown = st.none()
devices = st.builds(
    Device,
    model=names,
    cores=unknown | uint32,
    mhz=unknown | singles,
    memory=unknown | uint64,
    free=unknown | uint64,
    celsius=unknown | singles,
    battery=unknown | singles,
    core_watts=unknown | singles,
)
measurements = st.builds(
    Measured,
    samples=uint64,
    seconds=unknown | numbers,
    joules=unknown | numbers,
    device=unknown | devices,
)


plans = st.builds(Plan, samples=st.integers(1, MOST_COUNTED), counts=counts)


@st.composite
def pulls(draw: st.DrawFn) -> Pull:
    """A pull; what the client holds is of the epoch that it is in."""
    epoch = draw(epochs)
    return Pull(
        cid=draw(names),
        nonce=draw(uint64),
        epoch=epoch,
        held=draw(st.none() | st.builds(Held, st.just(epoch), uint64, digests, uint64)),
        abandoned=tuple(draw(st.lists(abandoned, max_size=HISTORY))),
        settled=draw(proved),
        history_from=draw(uint64),
        device=draw(unknown | devices),
        plan=draw(unknown | plans),
    )


pushes = epochs.flatmap(
    lambda epoch: st.builds(
        Push,
        cid=names,
        epoch=st.just(epoch),
        seq=uint64,
        base=st.builds(ModelName, st.just(epoch), uint64),
        payload=st.binary(max_size=50),
        digest=digests,
        settled=settled,
        samples=st.integers(0, MOST_COUNTED),
        steps=uint32,
        update_norm=singles,
        memory_norm=singles,
        oldest=st.none() | models,
        counts=counts,
        loss=st.none() | singles,
        measured=unknown | measurements,
    )
)
acks = st.builds(
    Ack,
    seq=uint64,
    digest=digests,
    answer=verdicts | st.sampled_from(list(Answer)),
    weight=singles,
    version=uint64,
    reason=st.text(max_size=50),
    retry_after=waits,
    proof=uint64,
)
receipts = st.builds(Receipt, uint64, digests, verdicts, numbers, uint64, uint64)
tasks = st.builds(
    Task,
    kind=st.sampled_from(["train", "evaluate"]),
    evaluate=st.booleans(),
    lease=singles,
    work=shares,
    density=shares,
    samples=unknown | st.integers(1, 2**64 - 1),
)


@st.composite
def replies(draw: st.DrawFn) -> Reply:
    """An answer to a pull; its patch is one piece, as it comes off the wire."""
    kinds: list[PatchKind] = ["none", "replay", "overwrite", "full"]
    parts = draw(st.lists(st.binary(min_size=1, max_size=30), max_size=4))
    body = b"".join(parts)
    kind = draw(st.sampled_from(kinds))
    patch = Patch(
        kind=kind,
        epoch=draw(epochs),
        start=-1 if kind == "full" else draw(uint64),
        version=draw(uint64),
        digest=draw(digests),
        parts=(body,) if body else (),
        lengths=tuple(map(len, parts)),
    )
    return Reply(
        nonce=draw(uint64),
        patch=patch,
        receipt=draw(st.none() | receipts),
        accepted=tuple(draw(st.lists(uint64, max_size=4))),
        task=draw(st.none() | tasks),
        done=draw(st.booleans()),
        retry_after=draw(waits),
        proof=draw(uint64),
        left=draw(uint64),
    )
