"""A file for each finished run, under the digest of all that it depends on."""

import json
from pathlib import Path
from typing import Any

from fedcore.errors import IMPOSSIBLE, ConfigError
from fedrun.json_text import read_json
from fedrun.plain_files import make_own, read_plain, write_text
from fedstudies.trial import Trial

FOLDER = "runs"


class Cache:
    """The runs in a sweep's folder.

    Args:
        folder: the folder of the sweep.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / FOLDER

    def get(self, key: str, *, whole: bool = False) -> Trial | None:
        """Looks a run up.

        Args:
            key: the digest of the run.
            whole: also require the folder of the run.

        Returns:
            The run, or None if it is not known.
        """
        path = self._path(key)
        if whole and not self.run_folder(key).is_dir():
            return None
        return self.read(key)[1] if path.is_file() else None

    def read(self, key: str) -> tuple[dict[str, Any], Trial]:
        """The config of a finished run, and its result.

        Raises:
            ConfigError: there is no such run, or its file is damaged.
        """
        path = self._path(key)
        try:
            raw = read_json(read_plain(path).decode())
            if not isinstance(raw["config"], dict):
                raise TypeError("its config is no section")
            return raw["config"], Trial.from_json(raw["trial"])
        except (OSError, *IMPOSSIBLE) as error:
            raise ConfigError(
                f"{path}: is not the run of a sweep ({type(error).__name__}); remove "
                "it, and it is simulated again"
            ) from error

    def put(self, key: str, config: dict[str, Any], trial: Trial) -> None:
        """Writes the file of a run. An interruption leaves no part of it."""
        make_own(self.folder)
        text = json.dumps({"config": config, "trial": trial.as_json()}, indent=1)
        write_text(self._path(key), text + "\n")

    def run_folder(self, key: str) -> Path:
        """The path of a run's folder, if that is kept."""
        return self.folder / key

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"
