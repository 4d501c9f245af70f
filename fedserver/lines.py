"""One JSON line for each event, where nobody looks at a terminal."""

import json
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

from fedrun.journal.codec import Row, to_row
from fedserver.progress import Progress


class JsonLines:
    """Writes what happens as JSON lines to a stream."""

    def __init__(self, progress: Progress, stream: TextIO = sys.stdout) -> None:
        self._progress, self._stream = progress, stream
        progress.listeners.append(self._record)

    def say(self, event: str, **facts: Any) -> None:
        """Writes one line."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": at, "event": event, **facts}, default=str)
        print(line, file=self._stream, flush=True)

    def _record(self, record: Row) -> None:
        kind, body, _ = to_row(record)
        facts = json.loads(body)
        facts.pop("at")
        cid = facts.get("cid")
        if cid is not None:
            facts["client"] = self._progress.name(cid)
        facts.pop("config", None)
        facts.pop("spec", None)
        self.say(kind.lower(), **facts)
