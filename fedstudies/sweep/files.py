"""The files in the folder of a sweep, besides those of its runs."""

import json
import re
from pathlib import Path
from typing import Any

from fedcore.errors import IMPOSSIBLE, ConfigError
from fedrun.json_text import read_json
from fedrun.plain_files import read_plain, write_text
from fedstudies.cache import Cache
from fedstudies.sweep.outcome import Outcome
from fedstudies.sweep.page import sweep_page
from fedstudies.sweep.sweep import Sweep
from fedstudies.trial import Trial
from fedview.results.columns import write_columns

INDEX = "sweep.json"
_KEY = re.compile(r"\w+", re.ASCII)  # of a run: its digest


def require_room(sweep: Sweep) -> None:
    """Checks that the folder holds no sweep of fields that this one leaves alone.

    Raises:
        ConfigError: it does, and its page and tables would be overwritten.
    """
    path = sweep.folder / INDEX
    try:
        points = json.loads(path.read_text(encoding="utf-8"))["points"]
        held = list(dict.fromkeys(field for point in points for field in point["set"]))
    except (OSError, ValueError, KeyError, TypeError):
        return  # there is none that could be read
    if not set(held) <= set(sweep.fields):
        ours = f"this is one of {', '.join(sweep.fields)}"
        raise ConfigError(
            f"{sweep.folder}: holds a sweep of {', '.join(held)}, and "
            f"{ours if sweep.fields else 'there is nothing to sweep (--grid, --range)'}"
            "; give another folder (--out)"
        )


def write_sweep(sweep: Sweep, outcome: Outcome) -> Path:
    """Writes page, tables and index; returns the path of the page.

    The tables are ``table`` (a row for each point), ``runs`` and ``curves``.
    """
    folder = sweep.folder
    folder.mkdir(parents=True, exist_ok=True)
    write_columns(outcome.table(), folder / "table")
    write_columns(outcome.runs(), folder / "runs")
    write_columns(outcome.curves(), folder / "curves")
    index = {
        "app": sweep.app,
        "metric": outcome.metric,
        "points": [
            {
                "name": row.name,
                "set": dict(row.point.settings),
                "runs": {s: sweep.keys[row.number, s] for s in row.trials},
            }
            for row in outcome.rows
        ],
    }
    write_text(folder / INDEX, json.dumps(index, indent=1) + "\n")
    page = folder / "sweep.html"
    write_text(page, sweep_page(outcome))
    return page


def read_point(folder: Path, rank: int) -> tuple[str, dict[str, Any], list[Trial]]:
    """Reads a point of a finished sweep.

    Args:
        folder: the folder of the sweep.
        rank: the number of the point in the table, from 1.

    Returns:
        The name of the point, the config of its first run, and its runs.

    Raises:
        ConfigError: there is no such point, or a file is damaged.
    """
    path = folder / INDEX
    try:
        points = read_json(read_plain(path).decode())["points"]
        known = [(str(point["name"]), list(point["runs"].values())) for point in points]
        if not all(_KEY.fullmatch(key) for _, keys in known for key in keys):
            raise ValueError("a run has no name")
    except (OSError, *IMPOSSIBLE) as error:
        raise ConfigError(f"{path}: is not the index of a sweep") from error
    if not 0 < rank <= len(known):
        raise ConfigError(
            f"{folder}:{rank}: the sweep has the points 1 to {len(known)}"
        )
    name, keys = known[rank - 1]
    if not keys:
        raise ConfigError(f"{folder}:{rank}: {name} has no run that ended well")
    runs = [Cache(folder).read(key) for key in keys]
    return name, runs[0][0], [trial for _, trial in runs]
