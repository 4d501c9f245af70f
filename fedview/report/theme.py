"""The colours and layout of all plots, on light and dark ground.

The colours are those of Okabe and Ito, which people with any kind of colour vision
can tell apart; what is rarer is hatched as well.
"""

from typing import TYPE_CHECKING, Any

from fedcore import payloads
from fedcore.protocol import Verdict

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

BLUE, SKY, GREEN = "#2b83c6", "#56b4e9", "#109e77"
ORANGE, VERMILION, PINK, YELLOW = "#e69f00", "#d9601a", "#cc79a7", "#e3cf3a"
GREY, PALE = "#8b919c", "rgba(139,145,156,0.25)"
UP, DOWN = BLUE, GREEN
_CODECS = (ORANGE, GREEN, PINK, SKY, VERMILION, YELLOW, BLUE)  # by the formats' codes
_HATCHES = ("", ".", "/", "x", "\\", "+")  # plain and deflated, each time round
DOWNTIME = "rgba(217,96,26,0.28)"

VERDICTS: dict[Verdict, tuple[str, str]] = {  # colour and hatching
    Verdict.ACCEPTED: (BLUE, ""),
    Verdict.REJECTED_STALE: (ORANGE, ""),
    Verdict.REJECTED_CLOSED: (GREY, ""),
    Verdict.REJECTED_POLICY: (PINK, "/"),
    Verdict.REJECTED_MALFORMED: (VERMILION, "x"),
    Verdict.DISCARDED: (YELLOW, "\\"),
}

_ABOVE = 22  # pixels between plot and legend, for words at lines that cross the plot
_LABEL = 22  # characters of a client's name on an axis
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"


def verdict_name(verdict: Verdict) -> str:
    """Returns a verdict in words."""
    return verdict.value.replace("_", ", ")


def fill(colour: str, hatch: str = "") -> dict[str, Any]:
    """Returns the colour and hatching of a bar."""
    pattern = {
        "shape": hatch,
        "size": 5,
        "solidity": 0.22,
        "fillmode": "overlay",
        "fgcolor": "rgba(255,255,255,0.75)",
    }
    return {"color": colour, "line": {"width": 0}, "pattern": pattern}


def of_codec(codec: str) -> dict[str, Any]:
    """Returns the fill of a codec, which is the same in every report.

    Args:
        codec: as :func:`fedrun.traffic.codec_of` names it.
    """
    name, _, deflated = codec.partition(" ")
    codes = {form.name: form.code for form in payloads.formats()}
    if name not in codes:
        return fill(GREY)
    again, place = divmod(codes[name], len(_CODECS))
    hatch = _HATCHES[(2 * again + bool(deflated)) % len(_HATCHES)]
    return fill(_CODECS[place], hatch)


def soft(colour: str, alpha: float) -> str:
    """Returns a colour with this opacity."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


def dress(figure: "Figure", height: int, **layout: Any) -> "Figure":
    """Gives a figure the layout of all figures.

    The legend stands above the plot and makes room for itself: it takes from the
    margin first, and from the plot where it has many lines.
    """
    top, bottom = 52, 52
    legend = {"orientation": "h", "x": 0, "xanchor": "left", "traceorder": "normal"}
    above = 1 + _ABOVE / max(100, height - top - bottom)
    form = {
        "height": height,
        "margin": {"l": 64, "r": 24, "t": top, "b": bottom},
        "legend": {**legend, "y": above, "yref": "paper", "yanchor": "bottom"},
        "hovermode": "closest",
        "bargap": 0.25,
    }
    figure.update_layout(**{**form, **layout}, template="none")
    figure.update_xaxes(automargin=True)
    figure.update_yaxes(automargin=True)
    return figure


def rows_height(rows: int) -> int:
    """Returns the height in pixels of a plot with ``rows`` clients."""
    return 130 + max(4, rows) * (26 if rows <= 16 else 19)


def legend_height(entries: int) -> int:
    """Returns the height in pixels of a legend beyond its first line."""
    return 20 * (max(0, entries - 1) // 4)


def label(name: str) -> str:
    """Shortens and escapes a client's name for an axis of Plotly."""
    return plain(name if len(name) <= _LABEL else f"{name[: _LABEL - 1]}…")


def plain(text: str) -> str:
    """Escapes text for Plotly's markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def themes() -> dict[str, Any]:
    """Returns Plotly templates for light and dark ground."""
    return {
        "light": _theme("#2a2e35", "#5b626e", "#e4e5e8", "#b9bdc5", "#ffffff"),
        "dark": _theme("#dfe2e7", "#a0a7b4", "#30353e", "#4b525e", "#23272e"),
    }


def _theme(text: str, faint: str, grid: str, line: str, card: str) -> dict[str, Any]:
    axis = {
        "gridcolor": grid,
        "linecolor": line,
        "zerolinecolor": grid,
        "tickcolor": line,
        "showline": True,
        "ticks": "outside",
        "ticklen": 4,
        "tickfont": {"color": faint, "size": 12},
        "title": {"font": {"color": faint, "size": 13}, "standoff": 8},
    }
    return {
        "layout": {
            "font": {"family": _FONT, "size": 13, "color": text},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "xaxis": axis,
            "yaxis": axis,
            "legend": {"font": {"color": text}, "bgcolor": "rgba(0,0,0,0)"},
            "annotationdefaults": {"font": {"color": faint, "size": 13}},
            "hoverlabel": {
                "bgcolor": card,
                "bordercolor": line,
                "font": {"color": text, "family": _FONT},
            },
            "modebar": {
                "bgcolor": "rgba(0,0,0,0)",
                "color": faint,
                "activecolor": text,
            },
            "coloraxis": {"colorbar": {"outlinewidth": 0}},
        },
        # Plotly itself judges a cell as if its colour were opaque.
        "data": {"heatmap": [{"textfont": {"color": text}}]},
    }
