"""What ``fedsim coding`` does: from a command line to tables and a page."""

from collections.abc import Generator
from pathlib import Path

import click
from rich.console import Console

from fedrun.cli.plain_json import to_json
from fedstudies.coding.page import (
    WARNING,
    coding_page,
    demonstrated,
    shuffle_cells,
    time_cells,
)
from fedstudies.coding.study import CodingStudy
from fedstudies.files import require_folder, write_files
from fedstudies.frame import Progress, follow
from fedstudies.terminal import screen, tell


def show_coding(study: CodingStudy, out: Path, *, as_json: bool) -> None:
    """Computes a study, writes its page and numbers, and prints it.

    Args:
        study: without its rows.
        out: the folder for the page and the numbers.
        as_json: print the numbers as JSON, and nothing else.

    Raises:
        ConfigError: the folder is a file.
    """
    require_folder(out)
    console = Console(stderr=True)

    def computed() -> Generator[Progress]:
        for row in study.fill():
            yield Progress(1, f"{row.method} {row.setting}")

    try:
        follow(computed(), "ways", study.steps, console)
    except KeyboardInterrupt:
        console.print("stopped")
        return
    files = write_files(out, "coding", coding_page(study), study.as_json())
    if as_json:
        click.echo(to_json(study.as_json(), indent=1))
        return
    shown = screen()
    shown.print(time_cells(study, every=False).on_screen(title=study.heading))
    if study.shuffles:
        title = f"Coded shuffling, multicast gain {study.gain:g}"
        shown.print(shuffle_cells(study).on_screen(title=title))
        tell(shown, demonstrated(study))
    for line in files.lines:
        tell(shown, line)
    click.echo(WARNING)
    click.echo(study.verdict)
