"""Writes what an experiment found: a page for people, and numbers for programs."""

from pathlib import Path
from typing import Any, NamedTuple

from fedcore.errors import ConfigError
from fedrun.cli.plain_json import to_json
from fedrun.plain_files import write_text


class Files(NamedTuple):
    """The files of an experiment."""

    page: Path
    numbers: Path

    @property
    def lines(self) -> tuple[str, str]:
        """What a command says of them."""
        return f"page: {self.page}", f"numbers: {self.numbers}"


def require_folder(out: Path) -> Path:
    """Returns the folder of ``--out``, which need not exist.

    Raises:
        ConfigError: it is a file.
    """
    if out.exists() and not out.is_dir():
        raise ConfigError(f"--out {out}: is a file, not a folder")
    return out


def write_files(out: Path, name: str, page: str, numbers: Any) -> Files:
    """Writes a page as HTML and numbers as JSON; makes the folder if need be.

    Args:
        out: the folder.
        name: of both files.
        page: the HTML.
        numbers: plain data; NaN and infinity become null.
    """
    out.mkdir(parents=True, exist_ok=True)
    files = Files(out / f"{name}.html", out / f"{name}.json")
    write_text(files.page, page)
    write_text(files.numbers, to_json(numbers, indent=1) + "\n")
    return files
