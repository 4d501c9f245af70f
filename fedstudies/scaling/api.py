"""``latecomer.scale``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedcore.errors import ConfigError
from fedrun.arguments import (
    expect_config,
    expect_list,
    expect_paths,
    expect_type,
    file_of,
    path_of,
)
from fedrun.config.yaml_text import changes_of
from fedstudies.scaling.command import ScaleOptions, compute_scale, write_scale
from fedstudies.scaling.report import ScaleReport


def scale(
    config: str | Path,
    *,
    workers: Sequence[int] = (1, 2, 4, 8, 16, 32),
    device: str | Path | None = None,
    link: str | None = None,
    runs: Sequence[str | Path] = (),
    app: str | None = None,
    changes: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
) -> ScaleReport:
    """Predicts what more workers bring to a federation, as ``fedsim scale`` does.

    Args:
        config: the path of the YAML file.
        workers: how many workers to predict for.
        device: a YAML file that describes the clients' device. Without it, this machine
            is measured.
        link: Mbit/s, such as ``"100"`` or ``"up=10,down=50,server=1000"``.
        runs: folders of runs: those of various numbers of clients show the measured
            scaling, and the batch limit is also measured at the last one's model.
        app: ``module:attribute``. Without it, the app that the config names.
        changes: values by field that replace those of the config.
        out: the folder for the page and the numbers. Without it, neither is written.

    Returns:
        The report: ``layer_times``, ``scaling()`` and ``limits``; ``verdict`` in words.

    Raises:
        ConfigError: a setting is wrong.
        UserCodeError: the user's code raised.
        JournalError: a folder holds no run.
    """
    for name, given in (("workers", workers), ("runs", runs)):
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise ConfigError(f"{name}: expected a list, got {given!r}")
    expect_config(config, app, changes)
    expect_paths(device=device, out=out)
    expect_list("folders of runs", str, Path, runs=runs)
    expect_type("a text such as 'up=10,down=50'", str, link=link)
    report = compute_scale(
        ScaleOptions(
            config=file_of(config),
            app=app,
            changes=changes_of(changes),
            workers=",".join(map(str, workers)),
            device=path_of(device),
            measure=False,
            link=link,
            runs=[Path(run) for run in runs],
            out=path_of(out),
            verbose=False,
        )
    )
    if out is not None:
        write_scale(report, Path(out))
    return report
