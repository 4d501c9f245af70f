"""Runs that are done, by what they depend on: a file each."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from fedcore.errors import ConfigError
from fedsim.campaign.trial import Trial

FOLDER = "runs"


class Cache:
    """The runs in a sweep's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / FOLDER

    def get(self, key: str, *, whole: bool = False) -> Trial | None:
        """A run that is done; with ``whole`` only if its folder was kept as well."""
        path = self._path(key)
        if whole and not self.run_folder(key).is_dir():
            return None
        return self.read(key)[1] if path.is_file() else None

    def read(self, key: str) -> tuple[dict[str, Any], Trial]:
        """The config of a run, and what it came to.

        Raises:
            ConfigError: there is none, or the file is damaged.
        """
        path = self._path(key)
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            return raw["config"], Trial.from_json(raw["trial"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{path}: is not the run of a sweep ({type(error).__name__}); remove "
                "it, and it is simulated again"
            ) from error

    def put(self, key: str, config: dict[str, Any], trial: Trial) -> None:
        """Keeps a run: its file is there whole, or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._path(key)
        temporary = path.with_suffix(".tmp")
        text = json.dumps({"config": config, "trial": trial.as_json()}, indent=1)
        temporary.write_text(text + "\n", encoding="utf-8")
        os.replace(temporary, path)

    def keep(self, key: str, run: Path) -> None:
        """Takes a run folder over."""
        place = self.run_folder(key)
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(run, place)

    def run_folder(self, key: str) -> Path:
        """Where a run is kept."""
        return self.folder / key

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"
