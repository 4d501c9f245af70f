"""Makes a peer's words printable, so that people can be shown them.

Control characters move a terminal's cursor, colour what follows, and turn writing
around. They are refused where a peer's words come in, and escaped where words are
shown that came in before, or from elsewhere.
"""

import math
from collections.abc import Collection, Mapping

MOST_METRICS = 64  # in a report
LONG_METRIC = 64  # characters of a metric's name
LONG = 300  # characters of a value that a sentence shows
LONG_SENTENCE = 1000  # characters of a peer's sentence that people are shown
_HUGE = 1e6  # of a metric, such as the loss of a run that diverges
LAYOUT = "\n\t"  # of text in lines, such as a traceback


def is_printable(text: str, *, lines: bool = False) -> bool:
    """Returns whether text can be shown as is; ``lines`` allows line ends, tabs."""
    if lines:
        text = text.replace("\n", "").replace("\t", "")
    return text.isprintable()


def printable(text: str, *, lines: bool = False) -> str:
    r"""Returns the text with escapes, such as ``\x1b``, for what is not printable."""
    if is_printable(text, lines=lines):
        return text
    kept = LAYOUT if lines else ""
    return "".join(
        mark
        if mark in kept or mark.isprintable()
        else mark.encode("unicode_escape").decode("ascii")
        for mark in text
    )


def brief(text: str, most: int = LONG) -> str:
    """Returns the beginning of a text of any length, in ``most`` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def from_peer(text: str) -> str:
    """Returns a peer's sentence for people: printable, and of bounded length."""
    return brief(printable(brief(text, LONG_SENTENCE)), LONG_SENTENCE)


def decimals(value: float, digits: int) -> str:
    """Formats a value with this many decimals; a huge one with a power of ten."""
    return f"{value:.{digits}f}" if abs(value) < _HUGE else f"{value:.{digits}e}"


def format_metrics(values: Mapping[str, float], samples: int) -> str:
    """Formats metrics and a number of samples: ``accuracy 0.9123, n = 1,024``."""
    shown = ", ".join(f"{name} {decimals(value, 4)}" for name, value in values.items())
    return f"{shown or 'no metrics'}, n = {samples:,}"


def wrong_metrics(names: Collection[str]) -> str:
    """Says why metrics of these names are not kept; empty if they are."""
    if len(names) > MOST_METRICS:
        return f"{len(names)} metrics, the limit is {MOST_METRICS}"
    for name in names:
        if not isinstance(name, str):
            return f"a metric's name is {name!r}; expected text"
        if len(name) > LONG_METRIC:
            return (
                f"a metric's name of {len(name)} characters, the limit is {LONG_METRIC}"
            )
        if not name.strip():
            return f"a metric's name is {name!r}; expected printable text"
        if not is_printable(name):
            return f"a metric's name must be printable text, got {name!a}"
    return ""


def keep_finite(metrics: Mapping[str, float] | None) -> dict[str, float] | None:
    """Returns a training's finite metrics; None of too many or unprintable ones."""
    if not metrics or wrong_metrics(metrics):
        return None
    return {k: float(v) for k, v in metrics.items() if math.isfinite(v)} or None
