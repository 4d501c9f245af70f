"""``fedsim new``: makes a folder with an app, the YAML and a README."""

import shutil
from collections.abc import Iterator
from importlib.resources import as_file, files
from pathlib import Path

from fedcore.errors import ConfigError


def make_project(folder: Path, template: str) -> Iterator[str]:
    """Writes a project that runs as it is.

    Args:
        folder: where to write it.
        template: torch, numpy or sklearn.

    Yields:
        The path of each file, and at the end the command to run next.

    Raises:
        ConfigError: the folder is not empty.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder}: is not empty; choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    source = files("fedsim").joinpath("templates", template)
    for part in sorted(source.iterdir(), key=lambda part: part.name):
        with as_file(part) as path:
            if path.is_file():
                shutil.copyfile(path, folder / path.name)
                yield str(folder / path.name)
    yield f"now: cd {folder} && fedsim run federation.yaml"
