"""Makes the trace of one client from the journal of a run.

The server knows when it leased a task and when it decided on the update, how many bytes
went both ways, and, if a controller measures devices, how long the client trained. It
does not know how long each transfer took.
"""

import math

from fedcore.coordinator.events import Decided, Enrolled, Leased
from fedcore.errors import ConfigError
from fedcore.planning.trace import NO_DOWNLOADS, NO_UPLOADS, Row, Trace, trace_of
from fedcore.typing import Seconds
from fedview.results import Results

_MEASURED = (
    "A journal does not tell downloads and uploads apart: what is not training is "
    "shared out by bytes (fedclient join --phases tells more)."
)
_BOUND = (
    "The journal has no training times: transfers are taken to be as fast as the "
    "server's link allows, and all other time is the client's own (fedclient join "
    "--phases tells more)."
)
_BLIND = (
    "The journal has no training times and the server's link is not known: all time is "
    "taken to be the client's own, so no link can ever be full (--server-up-mbit, "
    "--server-down-mbit, or fedclient join --phases)."
)


def journal_trace(
    results: Results, client: str, up: float | None, down: float | None
) -> Trace:
    """Returns the tasks of one client, from lease to verdict.

    Args:
        results: of the run.
        client: its name.
        up: bytes a second of the server's link towards it; None: not known.
        down: likewise from the server.

    Raises:
        ConfigError: the run has no such client, or too few of its tasks.
    """
    cids = [cid for cid, name in results.names.items() if name == client]
    if not cids:
        raise ConfigError(
            f"--client {client}: the run has no client of this name; it has "
            f"{trainers_of(results)}"
        )
    rows, lease, doubt, task, last = list[Row](), None, "", 0, -math.inf
    for record in results.records:
        if getattr(record, "cid", None) not in cids:
            continue
        if isinstance(record, Leased) and record.task == "train":
            lease = record
        elif isinstance(record, Decided) and lease is not None:
            began = max(lease.at, last)
            both, doubt = _transfers(record, lease.nbytes, record.at - began, up, down)
            rows += _rows(task, began, record, lease, *both)
            task, lease, last = task + 1, None, record.at
    trace = trace_of(client, rows)
    # Where it is blind, transfers have bytes of which nothing is made here.
    known = (NO_UPLOADS, NO_DOWNLOADS) if doubt == _BLIND else ()
    others = [each for each in trace.doubts if each not in known]
    return trace._replace(doubts=[doubt, *others])


def trainers_of(results: Results) -> str:
    """The names of the clients that could send updates, for a message."""
    enrolled = results.of(Enrolled)
    names = {each.name for each in enrolled if each.role == "trainer"}
    return ", ".join(sorted(names)) or "none"


def _transfers(
    update: Decided,
    got: int,
    whole: Seconds,
    up: float | None,
    down: float | None,
) -> tuple[tuple[Seconds, Seconds], str]:
    """Returns how long download and upload took, and what that rests on."""
    trained = update.measured.seconds if update.measured else None
    if trained is not None:
        rest = max(0.0, whole - trained)
        share = got / (got + update.nbytes) if got + update.nbytes else 0.5
        return (rest * share, rest * (1 - share)), _MEASURED
    if up is None and down is None:
        return (0.0, 0.0), _BLIND
    least = got / (down or math.inf), update.nbytes / (up or math.inf)
    scale = min(1.0, whole / sum(least)) if sum(least) else 1.0
    return (least[0] * scale, least[1] * scale), _BOUND


def _rows(
    task: int,
    began: Seconds,
    update: Decided,
    lease: Leased,
    download: Seconds,
    upload: Seconds,
) -> list[Row]:
    # A transfer of unknown time has no bytes either: it cannot be slower elsewhere.
    got = lease.nbytes if download else 0
    sent = update.nbytes if upload else 0
    middle, end = began + download, update.at - upload
    return [
        Row(task, "download", began, download, got, None, update.base),
        Row(task, "compute", middle, max(0.0, end - middle), 0, "download"),
        Row(task, "upload", max(middle, end), upload, sent, "compute"),
        Row(task, "verdict", max(middle, end) + upload, 0.0, 0, "upload"),
    ]
