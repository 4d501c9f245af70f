"""The last section: settings, models and tables."""

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import yaml
from safetensors import SafetensorError, safe_open

from fedrun import units
from fedview.report.history import history
from fedview.report.page import Section, copyable, fold, note, table, text
from fedview.results import Results, Table

HEAD = 10  # rows of each table
TABLES = ("updates", "versions", "tasks", "metrics", "federated", "by_client", "losses")
_MODELS = {
    "last": "the public model at the end",
    "best": "the best evaluated one",
    "initial": "version 0",
}


def section(results: Results, out: Path) -> Section:
    """Makes the section on settings, models and tables."""
    parts = [_models(results, out), _settings(results), *_tables(results)]
    lead = f"The folder of the run is <code>{text(results.folder)}</code>."
    return Section("data", "Models, settings and data", lead, parts)


def _models(results: Results, out: Path) -> str:
    rows = []
    for path in _model_files(results.folder):
        place = quote(os.path.relpath(path, out.parent))
        metadata = _metadata(path)
        rows.append(
            (
                f'<a href="{text(place)}">{text(path.name)}</a>',
                text(metadata.get("version", "0" if path.stem == "initial" else "–")),
                units.unbroken_bytes(path.stat().st_size),
                text(_format_evaluation(metadata.get("evaluated", ""))),
                _MODELS.get(path.stem, ""),
            )
        )
    if not rows:
        return note("No model was written yet.")
    return table(("model", "version", "size", "evaluated", "what it is"), rows, " rr")


def _format_evaluation(written: str) -> str:
    """Returns what a model file says of its evaluation, for people."""
    name, _, value = written.partition("=")
    try:
        return f"{name} {units.metric(float(value))}"
    except ValueError:
        return written or "–"


def _model_files(folder: Path) -> Iterator[Path]:
    names = [folder / "models" / f"{name}.safetensors" for name in _MODELS]
    yield from (path for path in names if path.is_file())


def _metadata(path: Path) -> dict[str, str]:
    try:
        with safe_open(path, "np") as file:
            return dict(file.metadata() or {})
    except (SafetensorError, OSError):
        return {"evaluated": "this file is damaged"}


def _settings(results: Results) -> str:
    configured = results.configured
    config = yaml.safe_dump(configured.config, sort_keys=False, allow_unicode=True)
    software = ", ".join(f"{k} {v}" for k, v in configured.versions.items())
    changes = [
        f"{units.in_seconds(mark.seconds)}: {mark.what}; {mark.more}"
        for mark in history(results)
    ]
    body = note(
        f"Written by {text(software)}; seed {configured.seed}; model of "
        f"{results.dim:,} values; origin <code>{text(configured.origin)}</code>."
    ) + copyable(config)
    if changes:
        body += note("History of the run:<br>" + "<br>".join(text(t) for t in changes))
    return fold("Settings", body)


def _tables(results: Results) -> Iterator[str]:
    yield fold(
        "Read everything from Python",
        copyable(
            "from pathlib import Path\n\n"
            "import pandas\n\n"
            "from fedview.results import Results\n\n"
            f"results = Results(Path({str(results.folder)!r}))\n"
            "updates = pandas.DataFrame(results.updates)\n"
            'last = results.model("last")  # named arrays\n'
        ),
    )
    for name in TABLES:
        content: Table = getattr(results, name)
        rows = len(next(iter(content.values()), []))
        if rows:
            shown = f"first {HEAD} of " if rows > HEAD else ""
            title = (
                f'{name} <span class="more">{shown}{units.amount(rows, "row")}</span>'
            )
            yield fold(title, copyable(as_text(content, HEAD)))


def as_text(content: Table, rows: int) -> str:
    """Returns the head of a table, with tabs between its columns."""
    lines = ["\t".join(content)]
    columns = [column[:rows] for column in content.values()]
    lines += ["\t".join(map(_cell, row)) for row in zip(*columns, strict=True)]
    return "\n".join(lines)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else str(value).replace("\t", " ").replace("\n", " ")
