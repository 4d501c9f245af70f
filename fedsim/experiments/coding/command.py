"""What ``fedsim coding`` does: from a command line to tables and a page."""

import json
from collections.abc import Generator
from pathlib import Path

import click
from rich.console import Console

from fedcore.errors import ConfigError
from fedsim.experiments.coding.page import (
    WARNING,
    coding_page,
    demonstrated,
    shuffle_cells,
    time_cells,
)
from fedsim.experiments.coding.study import CodingStudy
from fedsim.experiments.frame import Progress, follow
from fedsim.experiments.terminal import screen, tell


def show_coding(study: CodingStudy, out: Path, *, as_json: bool) -> None:
    """Computes a study, writes its page and numbers, and prints it.

    Args:
        study: without its rows.
        out: the folder for the page and the numbers.
        as_json: print the numbers as JSON, and nothing else.

    Raises:
        ConfigError: the folder is a file.
    """
    if out.exists() and not out.is_dir():
        raise ConfigError(f"--out {out}: is a file, not a folder")
    console = Console(stderr=True)

    def computed() -> Generator[Progress]:
        for row in study.fill():
            yield Progress(1, f"{row.method} {row.setting}")

    try:
        follow(computed(), "ways", study.steps, console)
    except KeyboardInterrupt:
        console.print("stopped")
        return
    out.mkdir(parents=True, exist_ok=True)
    page, numbers = out / "coding.html", out / "coding.json"
    page.write_text(coding_page(study), encoding="utf-8")
    written = json.dumps(study.as_json(), indent=1)
    numbers.write_text(written + "\n", encoding="utf-8")
    if as_json:
        click.echo(written)
        return
    shown = screen()
    shown.print(time_cells(study, every=False).on_screen(title=study.heading))
    if study.shuffles:
        title = f"Coded shuffling, multicast gain {study.gain:g}"
        shown.print(shuffle_cells(study).on_screen(title=title))
        tell(shown, demonstrated(study))
    tell(shown, f"page: {page}")
    tell(shown, f"numbers: {numbers}")
    click.echo(WARNING)
    click.echo(study.verdict)
