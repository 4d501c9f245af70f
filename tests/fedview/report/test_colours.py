"""The style of all pages: texts that can be read on their ground, in light and dark."""

import re
from itertools import product

import numpy as np
import pytest

from fedstudies.staleness.matrix import Matrix, matrix_figure
from fedstudies.staleness.slowdown import Row
from fedstudies.staleness.training import Course
from fedview.report.page import page
from fedview.report.theme import themes

LEAST = 4.5  # the contrast of small texts that WCAG 2.2 asks for (1.4.3, level AA)
PAIRS = [
    *product(("text", "faint"), ("ground", "card", "code")),
    *product(("accent",), ("ground", "card")),
    *product(("text", "good"), ("good-ground",)),
    *product(("text", "bad"), ("bad-ground",)),
]
Colour = tuple[float, ...]  # red, green, blue, and perhaps opacity


def style() -> str:
    found = re.search("<style>(.*?)</style>", page("title", "", []), re.DOTALL)
    assert found is not None
    return found[1]


def grounds() -> dict[str, dict[str, Colour]]:
    """The colours of the page by their names, in light and dark."""
    light, dark = (
        {
            name: parse(colour)
            for name, colour in re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", block)
        }
        for block in re.findall(r":root \{(.*?)\}", style(), re.DOTALL)
    )
    return {"light": light, "dark": dark}


def parse(colour: str) -> Colour:
    if colour.startswith("#"):
        return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return tuple(map(float, colour[len("rgba(") : -1].split(",")))


def on(colour: Colour, ground: Colour) -> Colour:
    """A colour that lets some of the ground through."""
    *solid, alpha = colour
    return tuple(
        alpha * c + (1 - alpha) * g for c, g in zip(solid, ground, strict=True)
    )


def contrast(one: Colour, other: Colour) -> float:
    def linear(value: float) -> float:
        share = value / 255
        return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4

    def luminance(colour: Colour) -> float:
        red, green, blue = map(linear, colour)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("name", ["light", "dark"])
def test_texts_of_a_page_stand_out_from_their_ground(name: str) -> None:
    colours = grounds()[name]
    for text, ground in PAIRS:
        assert contrast(colours[text], colours[ground]) >= LEAST, (text, ground)


@pytest.mark.parametrize("name", ["light", "dark"])
def test_texts_in_the_cells_of_a_matrix_stand_out_from_every_cell(name: str) -> None:
    courses = {(s, 0): Course(n, np.empty(0)) for s, n in ((0, 9), (4, 19))}
    matrix = Matrix("a", "accuracy", 0.9, [0, 4], 8, 32, [Row("sgd", 99, courses)])
    (cells,) = matrix_figure(matrix).data
    (own,) = themes()[name]["data"]["heatmap"]
    text, card = parse(own["textfont"]["color"]), grounds()[name]["card"]
    assert len(cells.colorscale) == 2
    for _, colour in cells.colorscale:
        assert contrast(text, on(parse(colour), card)) >= LEAST


@pytest.mark.parametrize("kind", ["h1", ".under", ".lead", ".note"])
def test_a_long_path_in_a_text_does_not_widen_the_page(kind: str) -> None:
    found = re.search(rf"^{re.escape(kind)} \{{(.*?)\}}", style(), re.MULTILINE)
    assert found is not None
    assert "overflow-wrap: anywhere" in found[1]
