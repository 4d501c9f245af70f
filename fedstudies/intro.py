"""The top of an experiment's page."""

from collections.abc import Sequence

from fedview.report.page import text

_INTRO = """<h1>{title}</h1>
<p class="under">{heading}</p>
<div class="{kind}"><p><strong>{verdict}</strong> {doubts}</p></div>"""


def intro(
    title: str,
    heading: str,
    verdict: str,
    doubts: Sequence[str],
    *,
    is_warning: bool = False,
) -> str:
    """The title, a line below it, and the result, as HTML.

    Args:
        title: what was examined.
        heading: how many points, seeds and runs there are.
        verdict: the result, without a capital and a full stop.
        doubts: what should be known before the result is used.
        is_warning: whether there is no result that can be used.
    """
    return _INTRO.format(
        title=text(title),
        heading=text(heading),
        kind="verdict warn" if is_warning else "verdict",
        verdict=text(f"{verdict[0].upper()}{verdict[1:]}."),
        doubts=text(" ".join(doubts)),
    )
