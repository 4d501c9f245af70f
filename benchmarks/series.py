"""Saved results keep every run, not only the last or the best one."""

import json
from pathlib import Path

from fedcore.typing import JSON

EARLIER = "earlier"


def after(before: JSON, run: JSON) -> JSON:
    """A run, with those that were saved before it: the oldest comes first."""
    if not before:
        return run
    last = {name: value for name, value in before.items() if name != EARLIER}
    return {**run, EARLIER: [*before.get(EARLIER, []), last]}


def join(path: Path, found: JSON) -> None:
    """Puts runs into a file, each by its name beside those that it had before."""
    kept = json.loads(path.read_text()) if path.is_file() else {}
    kept |= {name: after(kept.get(name), run) for name, run in found.items()}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


def runs(kept: JSON) -> list[JSON]:
    """Every run, in the order in which they were saved."""
    last = {name: value for name, value in kept.items() if name != EARLIER}
    return [*kept.get(EARLIER, []), last]
