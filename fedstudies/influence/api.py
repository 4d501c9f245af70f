"""``latecomer.influence``: an audit from Python and notebooks."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedcore.errors import ConfigError, WorkloadError
from fedcore.influence.fisher import SAMPLES
from fedcore.workload import Workload
from fedrun.arguments import expect_count, file_of, path_of
from fedrun.config.yaml_text import changes_of
from fedstudies.influence.command import InfluenceOptions, compute_influence
from fedstudies.influence.estimate import ESTIMATORS, Estimator
from fedstudies.influence.outcome import CHECKED, Audit


def influence(
    config: str | Path,
    workload: Workload | None = None,
    *,
    app: str | None = None,
    run: str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
    versions: int | None = None,
    estimator: Estimator = "hessian",
    samples: int = SAMPLES,
    truncate: bool = False,
    leave_one_out: bool = False,
    check: int = CHECKED,
    clients: Sequence[str] = (),
    out: str | Path | None = None,
    jobs: int = 1,
) -> Audit:
    """Estimates how each client influenced a model, as ``fedsim influence`` does.

    It needs the data of all clients where it runs, so it is for simulations, and for
    recorded runs whose data are at hand.

    Args:
        config: the path of the YAML file.
        workload: the model and the data. Without it, the app.
        app: ``module:attribute``. Without it, the app that the config names.
        run: the folder of a recorded run to audit. Without it, the federation is
            simulated first.
        changes: values by field that replace those of the config.
        versions: how many versions are simulated, or audited of a recorded run.
        estimator: ``hessian``, or ``fisher`` for gradients of samples in its place.
        samples: fisher: how many samples stand for a Hessian.
        truncate: whether layers are truncated once the estimate grows in them (LWET).
        leave_one_out: whether to retrain without each client, too.
        check: without how many clients it retrains, to check the estimate.
        clients: the names of those to audit. Without it, all.
        out: the folder of the simulated run. Without it, the next free one beside
            ``server.journal``.
        jobs: how many processes retrain. A script that uses several must guard its own
            start with ``if __name__ == "__main__"``.

    Returns:
        The clients in ``rows``, the most helpful one first, with ``verdict``,
        ``doubts``, ``correlation`` and ``as_json()``.

    Raises:
        ConfigError: a setting is wrong, or the run cannot be audited.
        WorkloadError: the workload is none.
        ModelError: the model's Hessian products do not match its gradients.
        LatecomerError: the app or the data are not those of the recorded run.
    """
    if workload is not None and not isinstance(workload, Workload):
        raise WorkloadError(
            f"workload: expected a Workload, got {type(workload).__name__}"
        )
    if estimator not in ESTIMATORS:
        raise ConfigError(
            f"estimator: expected {' or '.join(ESTIMATORS)}, got {estimator!r}"
        )
    if isinstance(clients, str):
        raise ConfigError(f"clients: expected a list of names, got {clients!r}")
    expect_count(samples=samples, jobs=jobs, check=check)
    if versions is not None:
        expect_count(versions=versions)
    options = InfluenceOptions(
        config=file_of(config),
        app=app,
        changes=changes_of(changes),
        out=path_of(out),
        jobs=jobs,
        verbose=False,
        run=path_of(run),
        versions=versions,
        estimator=estimator,
        samples=samples,
        truncate=truncate,
        leave_one_out=leave_one_out,
        check=check,
        clients=",".join(clients) or None,
    )
    return compute_influence(options, workload)[0]
