"""The layout of a figure on a phone."""

from itertools import pairwise
from typing import Any

from plotly.graph_objects import Figure, Scatter
from plotly.subplots import make_subplots

from fedview.report import theme
from fedview.report.narrow import narrow


def layout_of(figure: Figure, entries: int = 0) -> dict[str, Any]:
    return narrow(figure.to_dict()["layout"], entries)


def test_panels_side_by_side_go_below_each_other() -> None:
    figure = make_subplots(rows=2, cols=3, shared_xaxes=True, shared_yaxes=True)
    figure.update_yaxes(title_text="accuracy", row=1, col=1)
    wide = theme.dress(figure, 600).to_dict()["layout"]
    found = narrow(wide)
    axes = [name for name in found if name.startswith("xaxis")]
    assert len(axes) == 6
    assert all(found[name]["domain"] == [0.0, 1.0] for name in axes)
    rows = sorted(found[name]["domain"] for name in found if name.startswith("yaxis"))
    assert len(rows) == 6
    for below, above in pairwise(rows):
        assert below[1] < above[0]
    assert (rows[0][0], rows[-1][1]) == (0.0, 1.0)
    assert found["height"] > wide["height"]
    titled = [f"yaxis{n}" for n in ("", 2, 3)]
    assert {found[name]["title"]["text"] for name in titled} == {"accuracy"}
    assert all(found[name]["showticklabels"] for name in titled)


def test_a_single_panel_keeps_its_place_and_makes_room_for_the_legend() -> None:
    figure = theme.dress(Figure(Scatter(y=[1, 2])), 380)
    before = figure.to_dict()["layout"]
    assert layout_of(figure, 6)["height"] > 380
    assert figure.to_dict()["layout"] == before


def test_a_finger_scrolls_the_page() -> None:
    assert layout_of(theme.dress(Figure(), 300))["dragmode"] is False
