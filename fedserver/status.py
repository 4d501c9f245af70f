"""The state of a run as JSON, for ``fedserver status``."""

import asyncio
import heapq
import json
import time
from collections.abc import Mapping
from types import MappingProxyType

from fedcore.typing import JSON, Seconds
from fedrun.results.coverage import Coverage, Label
from fedrun.results.warnings import absence, since, warnings
from fedrun.traffic import by_client, lanes_json
from fedserver.core import Core
from fedserver.progress import Progress
from fedserver.sessions import Sessions
from fedserver.stall import stall

NOBODY: Mapping[str, str] = MappingProxyType({})
MOST_LISTED = 2000  # clients in a status, which must fit into one message
_LONGEST: Seconds = 1.0  # for which a status of more clients is given again


class Status:
    """Answers status calls; that of many clients is made once a second at most."""

    def __init__(self, progress: Progress, sessions: Sessions, core: Core) -> None:
        self._progress, self._sessions, self._core = progress, sessions, core
        self._making, self._stale = asyncio.Lock(), 0.0
        self._texts = "", ""

    async def text(self, everything: bool) -> str:
        """Returns the status as JSON: all of it, or what everybody may know."""
        async with self._making:
            is_small = len(self._progress.clients) <= MOST_LISTED
            loop = asyncio.get_running_loop()
            if is_small or loop.time() >= self._stale:
                present, trouble = self._sessions.present, self._core.trouble
                waiting = dict(self._sessions.waiting)
                self._texts = await asyncio.to_thread(
                    self._make, present, waiting, trouble
                )
                self._stale = loop.time() + _LONGEST
            return self._texts[everything]

    def _make(
        self, present: set[str], waiting: dict[str, str], trouble: str | None
    ) -> tuple[str, str]:
        """Returns what everybody may know, and the whole status."""
        stalled = stall(self._progress, trouble)
        status = status_json(self._progress, present, waiting)
        status |= {"disk": trouble, "stalled": stalled}
        return json.dumps(without_clients(status)), json.dumps(status)


def status_json(
    progress: Progress, present: set[str], waiting: Mapping[str, str] = NOBODY
) -> JSON:
    """Returns the state of a run.

    Args:
        progress: of the run.
        present: ids of the connected clients.
        waiting: why clients begin no task, by id.
    """
    state, config = progress.run.coordinator.state, progress.run.config
    with progress.lock:  # the core thread waits: no more than copies
        facts = {
            "run": progress.run.run_id,
            "journal": str(progress.run.journal.folder),
            "recipe": config.algorithm.kind,
            "version": state.version,
            "epoch": state.epoch,
            "unproved": progress.run.coordinator.unproved,
            "stop": config.stop.model_dump(exclude_none=True),
            "ended": state.closed,
            "paused": state.paused,
            "evicted": dict(state.roster.evicted),
            "buffer": [state.count, config.algorithm.buffer],
            "updates": dict(progress.verdicts),
            "updates_per_second": round(progress.rate, 3),
            "uptime": round(time.monotonic() - progress.began, 1),
            "payload_up": progress.payload_up,
            "payload_down": progress.payload_down,
            "metrics": dict(progress.metrics[-1][1]) if progress.metrics else {},
            "evaluated_version": progress.metrics[-1][0] if progress.metrics else None,
        }
    traffic = {
        "lanes": lanes_json(progress.traffic.sums()),
        "values": progress.run.coordinator.algorithm.model.dim,
    }
    covered = _coverage_json(progress.coverage)
    clients = _clients_json(progress, present, waiting)
    return {**facts, "traffic": traffic, "coverage": covered, **clients}


def _clients_json(
    progress: Progress, present: set[str], waiting: Mapping[str, str]
) -> JSON:
    """Returns the clients that were heard of last, and how many others there are."""
    with progress.lock:
        latest = heapq.nlargest(
            MOST_LISTED, progress.clients.items(), key=lambda item: item[1].seen
        )
        listed = {
            cid: {**vars(client), **_shares(progress.coverage, cid)}
            for cid, client in latest
        }
        unlisted = len(progress.clients) - len(listed)
        places = {cid: n for n, cid in enumerate(progress.clients) if cid in listed}
    lanes = by_client(progress.traffic.lanes())
    return {
        "clients": [
            {
                **listed[cid],
                "present": cid in present,
                "waiting": waiting.get(cid, ""),
                "traffic": {"lanes": lanes_json(lanes.get(cid, {}))},
            }
            for cid in places
        ],
        "unlisted": unlisted,
    }


def _coverage_json(coverage: Coverage) -> JSON:
    """Returns which clients the model has learnt from, and which it has not."""
    missing = coverage.missing
    return {
        "recent": coverage.recent_updates,
        "half": [client.name for client in coverage.half[:MOST_LISTED]],
        "missing": [
            {"client": client.name, "since": since(client)}
            for client in missing[:MOST_LISTED]
        ],
        "absence": absence(coverage),
        "labels": {
            str(label): found._asdict() for label, found in _largest(coverage.labels)
        },
        "warnings": warnings(coverage),
    }


def _largest(labels: dict[int, Label]) -> list[tuple[int, Label]]:
    """Returns the labels with the largest shares, in their order."""
    found = heapq.nlargest(MOST_LISTED, labels.items(), key=lambda each: each[1].share)
    return sorted(found)


def _shares(coverage: Coverage, cid: str) -> JSON:
    if cid not in coverage.clients:  # an evaluator
        return {"share": 0.0, "recent_share": 0.0}
    return {"share": coverage.share(cid), "recent_share": coverage.recent_share(cid)}


def without_clients(status: JSON) -> JSON:
    """Returns what everybody may know of a status: sums, and no client's name."""
    unlisted = status["unlisted"] + len(status["clients"])
    hidden = {
        "journal": "",
        "disk": "it is full or fails" if status["disk"] else "",
        "evicted": {},
        "coverage": {"absence": "", "warnings": []},
    }
    return {**status, **hidden, "clients": [], "unlisted": unlisted}
