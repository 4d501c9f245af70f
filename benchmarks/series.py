"""Saved results, which keep every run and not only the last or the best one."""

import json
from pathlib import Path

from benchmarks import basis
from fedcore.typing import JSON

EARLIER = "earlier"


def after(before: JSON, run: JSON) -> JSON:
    """A run and what it rests on, with those saved before it: the oldest comes first.

    The earlier ones are of other programs, so what they rested on is left out.
    """
    run = {**run, **basis.stamp()}
    if not before:
        return run
    left_out = (EARLIER, basis.RESTS_ON)
    last = {name: value for name, value in before.items() if name not in left_out}
    return {**run, EARLIER: [*before.get(EARLIER, []), last]}


def join(path: Path, found: JSON) -> None:
    """Puts runs into a file, each by its name beside those that it had before."""
    kept = _read(path)
    kept |= {name: after(kept.get(name), run) for name, run in found.items()}
    _write(path, kept)


def put(path: Path, name: str, run: JSON) -> None:
    """Saves a run in a file in place of the one of its name; others in it stay."""
    kept = _read(path)
    kept[name] = {**run, **basis.stamp()}
    _write(path, kept)


def add(path: Path, run: JSON) -> None:
    """Saves a run in a file that holds one kind of run, with those saved before it."""
    _write(path, after(_read(path), run))


def runs(kept: JSON) -> list[JSON]:
    """Every run, in the order in which they were saved."""
    last = {name: value for name, value in kept.items() if name != EARLIER}
    return [*kept.get(EARLIER, []), last]


def _read(path: Path) -> JSON:
    found: JSON = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return found


def _write(path: Path, kept: JSON) -> None:
    path.parent.mkdir(exist_ok=True)
    text = json.dumps(kept, indent=1, ensure_ascii=False)
    fresh = path.with_suffix(".new")
    fresh.write_text(text + "\n", encoding="utf-8")
    fresh.replace(path)  # whoever is stopped here leaves the old file
