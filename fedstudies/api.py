"""``latecomer.run_sweep``, ``compare_codecs`` and ``compare_runs``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedcore.errors import ConfigError
from fedrun.arguments import expect_count, file_of, path_of
from fedrun.config.yaml_text import changes_of, value_text
from fedstudies.codecs.command import CodecsOptions, compute_codecs
from fedstudies.codecs.comparison import Comparison as CodecComparison
from fedstudies.compare.command import write_page
from fedstudies.compare.comparison import Comparison, compare
from fedstudies.compare.sides import read_sides
from fedstudies.sweep.command import SweepOptions, compute_sweep
from fedstudies.sweep.outcome import Outcome
from fedview.results import Results


def run_sweep(
    config: str | Path,
    grid: Mapping[str, Sequence[Any]] | None = None,
    *,
    ranges: Mapping[str, tuple[str, float, float]] | None = None,
    random: int | None = None,
    seeds: int = 1,
    metric: str | None = None,
    app: str | None = None,
    changes: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    fresh: bool = False,
    keep: bool = False,
    jobs: int = 1,
) -> Outcome:
    """Tries many settings of a federation, as ``fedsim sweep`` does.

    The folder of the sweep keeps each finished run, and a later call does not simulate
    it again.

    Args:
        config: the path of the YAML file.
        grid: the values to try by field, such as ``{"algorithm.buffer": [4, 8]}``; with
            several fields every combination is tried.
        ranges: by field an interval to draw from: the scale (linear, log or int), the
            low end and the high end.
        random: how many points to draw from ``ranges`` and ``grid``.
        seeds: how often each point is simulated.
        metric: the metric to compare by. Without it, accuracy, or the first one that
            was measured.
        app: ``module:attribute``. Without it, the app that the config names.
        changes: values by field that replace those of the config at all points.
        out: the folder of the sweep. Without it, a folder beside ``server.journal``.
        fresh: whether to simulate finished runs again.
        keep: whether to keep the folders of the runs.
        jobs: how many processes. A script that uses several must guard its own start
            with ``if __name__ == "__main__"``, since they import it.

    Returns:
        The points, the best one first: ``table()``, ``runs()`` and ``curves()`` are
        dicts of columns, ``rows[0]`` is the best point, and ``verdict`` names it.

    Raises:
        ConfigError: a setting is wrong.
        LatecomerError: every run ended with an error.
    """
    for name, given in (("grid", grid), ("ranges", ranges)):
        if given is not None and not isinstance(given, Mapping):
            raise ConfigError(
                f"{name}: expected a mapping by field, such as "
                f"{{'algorithm.buffer': ...}}, got {type(given).__name__}"
            )
    expect_count(seeds=seeds)
    spans = (ranges or {}).items()
    return compute_sweep(
        SweepOptions(
            config=file_of(config),
            app=app,
            changes=changes_of(changes),
            grids=[_axis(field, values) for field, values in (grid or {}).items()],
            ranges=[f"{field}={':'.join(map(str, span))}" for field, span in spans],
            random=random,
            seeds=seeds,
            metric=metric,
            out=path_of(out),
            fresh=fresh,
            keep=keep,
            jobs=jobs,
            verbose=False,
        )
    )


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


def compare_runs(
    *runs: str | Path | Results,
    metric: str | None = None,
    target: float | None = None,
    out: str | Path | None = None,
) -> Comparison:
    """Compares runs or sweeps, as ``fedsim compare`` does.

    Args:
        runs: folders of runs or sweeps, or ``Results``; ``"FOLDER:2"`` is a row of a
            sweep.
        metric: the metric to compare by. Without it, accuracy, or the first one that
            was measured.
        target: the value of the metric up to which costs are counted. Without it,
            ``stop.target``, or the best value that all runs reach.
        out: the file of a page with the curves. Without it, no page is written.

    Returns:
        The ``sides``, their costs and their differences; ``sentences()`` are in words.

    Raises:
        ConfigError: a folder holds no run and no sweep, or there is only one run.
        WorkloadError: the metric was not measured.
    """
    for run in runs:
        if not isinstance(run, str | Path | Results):
            raise ConfigError(
                "compare_runs: expected folders or Results, one after the other, got "
                f"{type(run).__name__}"
            )
    names = [str(run.folder if isinstance(run, Results) else run) for run in runs]
    comparison = compare(read_sides(names), metric, target)
    if out is not None:
        write_page(comparison, Path(out))
    return comparison


def _axis(field: str, values: Sequence[Any]) -> str:
    """A field and its values, written as ``--grid`` takes them."""
    is_list = hasattr(values, "__len__") and not isinstance(values, str | Mapping)
    if not is_list or not len(values):
        raise ConfigError(
            f"grid: {field}: expected a list of values such as [4, 8], got {values!r}"
        )
    return f"{field}={','.join(map(value_text, values))}"
