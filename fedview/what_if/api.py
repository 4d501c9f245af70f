"""``latecomer.replay`` and ``latecomer.leave_one_out``."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fedcore.errors import ConfigError
from fedcore.workload import Workload
from fedrun.app import load_app
from fedrun.arguments import expect_changes, expect_list, expect_paths, expect_type
from fedrun.config.yaml_text import changes_of
from fedrun.evaluation import evaluate_files
from fedview.what_if.compare import compare
from fedview.what_if.counterfactual import Counterfactual
from fedview.what_if.evaluate import evaluate_both
from fedview.what_if.leave_one_out import EvaluateFiles, LeaveOneOut, rank
from fedview.what_if.page import write_page


def replay(
    run: str | Path,
    *,
    without: str | Sequence[str] = (),
    changes: Mapping[str, Any] | None = None,
    app: str | Workload | None = None,
    out: str | Path | None = None,
    page: str | Path | None = None,
) -> Counterfactual:
    """Returns what a run's model would have been, as ``fedserver journal replay`` does.

    The updates are those that the run recorded. Without a client the rounds stay as
    they were but for its updates; with changes all decisions are made anew.

    Args:
        run: the folder of the run.
        without: the name of a client to leave out, or several.
        changes: values by field that replace those of the run's config, such as
            ``{"algorithm.buffer": 8}``.
        app: ``module:attribute`` or a workload; its test data evaluate both models.
        out: a file to which the model of the replay is written.
        page: a file to which the comparison is written as HTML.

    Returns:
        ``recorded.model`` and ``replayed.model`` are named arrays; ``versions``,
        ``layers``, ``clients``, ``labels`` and ``evaluations`` are dicts of columns;
        ``sentences`` say how the models differ.

    Raises:
        ConfigError: a client or a setting does not exist, or no update is left.
        JournalError: there is no run, or its journal does not hold all updates.
        WorkloadError: the app has no test data.
    """
    folder = _folder(run)
    names = (without,) if isinstance(without, str) else without
    expect_list("names of clients", str, without=names)
    expect_changes(changes)
    expect_paths(out=out, page=page)
    evaluate = _evaluate(app)
    found = compare(folder, changes_of(changes), tuple(names))
    if evaluate is not None:
        found = evaluate_both(found, evaluate)
    if out is not None:
        found.replayed.save(Path(out))
    if page is not None:
        write_page(found, Path(page))
    return found


def leave_one_out(
    run: str | Path,
    app: str | Workload | None = None,
    *,
    changes: Mapping[str, Any] | None = None,
    metric: str | None = None,
    page: str | Path | None = None,
) -> LeaveOneOut:
    """Ranks the clients of a run by the model without each of them.

    The other clients would have trained on other models. Where that could change the
    order, by what the journal tells, there is no ranking.

    Args:
        run: the folder of the run.
        app: ``module:attribute`` or a workload; its test data evaluate the models.
            Without it, the clients are ranked by the distance of the models.
        changes: values by field that replace those of the run's config.
        metric: by which the clients are ranked; the loss if left out.
        page: a file to which the ranking is written as HTML.

    Returns:
        ``table`` is a dict of columns, the most helpful client first if ``is_ranked``;
        ``trust`` and ``sentences`` say how far to trust the order.

    Raises:
        ConfigError: there is no such setting or metric, or just one client.
        JournalError: there is no run, or its journal does not hold all updates.
        WorkloadError: the app has no test data.
    """
    folder = _folder(run)
    expect_changes(changes)
    expect_type("the name of a metric", str, metric=metric)
    expect_paths(page=page)
    found = rank(folder, changes_of(changes), _evaluate(app), metric)
    if page is not None:
        write_page(found, Path(page))
    return found


def _folder(run: str | Path) -> Path:
    if not isinstance(run, str | Path):
        raise ConfigError(f"run: expected the folder of a run, got {run!r}")
    return Path(run)


def _evaluate(app: str | Workload | None) -> EvaluateFiles | None:
    if app is None:
        return None
    expect_type(
        "a workload or a text such as 'my_app:workload'", str, Workload, app=app
    )
    workload = load_app(app) if isinstance(app, str) else app
    name = app if isinstance(app, str) else "the workload"
    return partial(evaluate_files, workload, app=name)
