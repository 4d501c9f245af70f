"""Exports models, tables and the config of a run."""

import json
import shutil
from contextlib import closing
from pathlib import Path

import yaml

from fedcore.errors import JournalError
from fedcore.params import ParamSpec, Rest
from fedcore.typing import Vector
from fedrun.files import load_model, load_rest, save_model
from fedrun.journal import Journal, public_model, recover
from fedrun.plain_files import replacing, write_text
from fedview.adapter import save_adapter
from fedview.results import FRAMES, Results
from fedview.results.columns import write_columns

# All but `central`, whose rows are among those of `metrics`.
TABLES = tuple(name for name in FRAMES if name != "central")


def export_model(run: Path, out: Path, which: str, version: int | None) -> str:
    """Writes the ``last``, ``best``, ``initial`` or ``exact`` model, or any version.

    The last and the best model are public models, as clients hold them; the exact one
    is the server's own model, which the public one approaches.

    Raises:
        JournalError: there is no such model.
    """
    if (source := _file_of(run, which, version)) is not None:
        with replacing(out) as temporary:
            shutil.copyfile(source, temporary)
        return f"{out}: the {which} model of {run}"
    spec, model_D, rest, number = _read_model(run, which, version)
    save_model(out, spec, model_D, rest=rest, version=str(number))
    return f"{out}: version {number} of {run}"


def export_adapter(run: Path, folder: Path, which: str, version: int | None) -> str:
    """Writes the adapter of a model as a folder that PEFT loads.

    Args:
        run: the folder of the run.
        folder: is made, where it is missing.
        which: see :func:`export_model`, as for ``version``.
        version: its number; None: ``which``.

    Raises:
        JournalError: there is no such model.
        ModelError: it is no adapter.
    """
    if (source := _file_of(run, which, version)) is not None:
        spec, model_D = load_model(source)
        rest, source_words = load_rest(source), f"the {which} model of {run}"
    else:
        spec, model_D, rest, number = _read_model(run, which, version)
        source_words = f"version {number} of {run}"
    save_adapter(folder, spec, model_D, rest, str(run))
    return f"{folder}: the adapter of {source_words}"


def _file_of(run: Path, which: str, version: int | None) -> Path | None:
    """Returns the file in which a run keeps a model; None: its journal has it.

    Raises:
        JournalError: neither has it.
    """
    if version is not None or which == "exact":
        return None
    source = run / "models" / f"{which}.safetensors"
    if source.is_file():
        return source
    if which != "last":
        raise JournalError(f"{run} has no {which} model yet")
    return None


def _read_model(
    run: Path, which: str, version: int | None
) -> tuple[ParamSpec, Vector, Rest, int]:
    """Reads the public or the exact model, or a version, from a run's journal."""
    with closing(Journal.open(run, read_only=True)) as journal:
        spec, _ = journal.initial()
        if version is None:
            state = recover(journal).coordinator.state
            is_exact, number = which == "exact", state.version
            model_D = state.exact_D if is_exact else state.published.public_D
        else:
            model_D, number = public_model(journal, version), version
        return spec, model_D, journal.rest(), number


def export_tables(run: Path, folder: Path) -> list[Path]:
    """Writes the tables of a run, as CSV files and, with pyarrow, as Parquet."""
    results = Results(run)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in TABLES:
        written += write_columns(getattr(results, name), folder / name)
    return written


def export_config(run: Path, place: Path | None = None) -> list[Path]:
    """Writes ``config.yaml``, all of it with its defaults, and ``versions.json``.

    The config can be simulated again as it is.

    Args:
        run: the folder of the run.
        place: the folder of the app; the config names a file there by its full path.
    """
    configured = Results(run).configured
    config = dict(configured.config)
    if place is not None and config.get("app"):
        config["app"] = _whole_name(config["app"], place)
    settings, versions = run / "config.yaml", run / "versions.json"
    write_text(settings, yaml.safe_dump(config, sort_keys=False))
    write_text(versions, json.dumps(configured.versions, indent=1) + "\n")
    return [settings, versions]


def _whole_name(app: str, place: Path) -> str:
    """Returns the app with its whole path, where it is a file of this folder."""
    where, _, attribute = app.partition(":")
    path = where if where.endswith(".py") else f"{where.replace('.', '/')}.py"
    file = (place / path).resolve()
    return f"{file}:{attribute}" if file.is_file() else app
