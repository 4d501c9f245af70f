"""``latecomer.compare_codecs``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedcore.errors import ConfigError
from fedrun.arguments import expect_count, file_of, path_of
from fedrun.config.yaml_text import changes_of
from fedstudies.codecs.command import CodecsOptions, compute_codecs
from fedstudies.codecs.comparison import Comparison as CodecComparison


def compare_codecs(
    config: str | Path | None = None,
    *,
    app: str | None = None,
    changes: Mapping[str, Any] | None = None,
    uplinks: Sequence[str] = (),
    downlinks: Sequence[str] = (),
    versions: int = 100,
    seeds: int = 1,
    tolerance: float = 0.005,
    out: str | Path | None = None,
    jobs: int = 1,
) -> CodecComparison:
    """Compares codecs on a model, as ``fedsim codecs`` does.

    Args:
        config: the path of the YAML file. Without it, all settings have their defaults.
        app: ``module:attribute``. Without it, the app that the config names.
        changes: values by field that replace those of the config.
        uplinks: codecs for updates, such as ``"top_k:ratio=0.01"`` or as YAML.
        downlinks: codecs for models, written likewise.
        versions: how many versions each simulation makes.
        seeds: how often each pair is simulated.
        tolerance: how much worse than uncompressed the recommended pair may be.
        out: the folder for the page and the numbers. Without it, the next free one
            beside ``server.journal``.
        jobs: how many processes, as in :func:`run_sweep`.

    Returns:
        The pairs, the uncompressed one first: ``rows``, ``values`` and ``front``;
        ``advice`` and ``yaml`` recommend one.

    Raises:
        ConfigError: a setting is wrong.
        UserCodeError: the user's code raised.
    """
    for name, codecs in (("uplinks", uplinks), ("downlinks", downlinks)):
        if isinstance(codecs, str):
            raise ConfigError(f"{name}: expected a list of codecs, got {codecs!r}")
    expect_count(seeds=seeds, versions=versions)
    return compute_codecs(
        CodecsOptions(
            config=None if config is None else file_of(config),
            app=app,
            changes=changes_of(changes),
            uplinks=uplinks,
            downlinks=downlinks,
            versions=versions,
            seeds=seeds,
            tolerance=tolerance,
            out=path_of(out),
            jobs=jobs,
            verbose=False,
        )
    )
