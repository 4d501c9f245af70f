"""Takes models and tables out of a run."""

import csv
import shutil
from pathlib import Path

from fedcore.coordinator.records import Stepped
from fedcore.errors import JournalError
from fedrun.files import save_model
from fedrun.journal import Journal
from fedrun.journal.recover import recover_from
from fedrun.results import Results

TABLES = ("metrics", "versions", "updates", "tasks", "losses")


def export_model(run: Path, out: Path, which: str, version: int | None) -> str:
    """Writes the ``last``, ``best``, ``initial`` or ``exact`` model, or any version.

    The last and best ones are public models, as clients hold them; the exact one is
    what they are on their way to.

    Raises:
        JournalError: there is no such model.
    """
    if version is None and which != "exact":
        source = run / "models" / f"{which}.safetensors"
        if source.is_file():
            shutil.copyfile(source, out)
            return f"{out}: the {which} model of {run}"
        if which != "last":
            raise JournalError(f"{run} has no {which} model yet")
    journal = Journal.open(run, read_only=True)
    try:
        until = None if version is None else _record_of(journal, version)
        start = journal.newest_snapshot(until)
        state = recover_from(journal, start, until).coordinator.state
    finally:
        journal.close()
    model_D = state.exact_D if which == "exact" else state.published.public_D
    save_model(out, state.algorithm.spec, model_D, version=str(state.version))
    return f"{out}: version {state.version} of {run}"


def _record_of(journal: Journal, version: int) -> int:
    """The record that published a version."""
    if version == 0:
        return 1
    for number, record in journal.store.entries(payloads=False):
        if isinstance(record, Stepped) and record.version == version:
            return number
    raise JournalError(f"{journal.folder} never published version {version}")


def export_tables(run: Path, folder: Path) -> list[Path]:
    """Writes the tables of a run as CSV files."""
    results = Results(run)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in TABLES:
        table = getattr(results, name)
        path = folder / f"{name}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(table)
            writer.writerows(zip(*table.values(), strict=True))
        written.append(path)
    return written
