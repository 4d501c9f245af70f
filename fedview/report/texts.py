"""The section on what the model wrote at each version, such as a language model."""

import numpy as np

from fedcore.coordinator.events import Evaluated
from fedcore.text import printable
from fedview.report.page import Section, table, text
from fedview.results import Results

MOST = 12  # texts that are shown


def section(results: Results) -> Section | None:
    """Makes the section; None where no evaluator has sent a text."""
    written = {each.version: each.text for each in results.of(Evaluated) if each.text}
    if not written:
        return None
    versions = sorted(written)
    count = min(MOST, len(versions))
    places = np.linspace(0, len(versions) - 1, count).round().astype(int)
    rows = [
        (f"{versions[at]:,}", f"<pre>{text(_show(written[versions[at]]))}</pre>")
        for at in places.tolist()
    ]
    more = f" {count} of {len(versions):,} are shown." if len(versions) > count else ""
    lead = f"A sample of the model's own at the versions that were evaluated.{more}"
    return Section("texts", "Texts", lead, [table(("version", "text"), rows, "r")])


def _show(written: str) -> str:
    return printable(written, lines=True)
