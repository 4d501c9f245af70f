"""Writes the report of a run: one self-contained HTML page."""

from pathlib import Path

from fedcore.errors import ConfigError
from fedrun.optional import is_installed
from fedrun.plain_files import write_text
from fedview.report.appendix import section as appendix
from fedview.report.client_timelines import timelines_of
from fedview.report.coverage import section as coverage
from fedview.report.header import intro, title
from fedview.report.learning import section as learning
from fedview.report.memory import section as memory
from fedview.report.page import page
from fedview.report.staleness import section as staleness
from fedview.report.texts import section as texts
from fedview.report.timeline import section as timeline
from fedview.report.traffic import section as traffic
from fedview.report.verdicts import section as verdicts
from fedview.results import Results


def write_report(folder: Path, out: Path | None = None) -> Path:
    """Writes the report of the run in a folder; returns where it is.

    Args:
        folder: of the run.
        out: the page; ``report.html`` in the folder if left out.

    Raises:
        JournalError: there is no run in the folder, or it is damaged.
        ConfigError: plotly is not installed, as in a container's image.
    """
    if not is_installed("plotly"):
        raise ConfigError(
            "a report needs the package plotly, which images of containers leave out: "
            "write it where latecomer is installed with pip, from a backup of the run, "
            "or build the image with --build-arg REPORT=yes"
        )
    results, out = Results(folder), out or folder / "report.html"
    timelines = timelines_of(results)
    text = page(
        f"{title(results)} (run {results.configured.run_id})",
        intro(results, timelines),
        [
            learning(results),
            *filter(None, [texts(results)]),
            coverage(results),
            staleness(results),
            verdicts(results, timelines),
            traffic(results),
            timeline(results, timelines),
            memory(results),
            appendix(results, out),
        ],
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, text)
    return out
