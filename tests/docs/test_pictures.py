"""The pictures of the pages: as the program draws them, readable, and used."""

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from docs.pictures.__main__ import DRAWN, FOLDER, REPORT, VIEW
from tests.docs.pages import PAGES
from tools.svg import SIZE, width_of

SHOWN = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
MOST_BYTES = 200_000
SVG = "{http://www.w3.org/2000/svg}"


def drawn(name: str) -> Element:
    return ElementTree.fromstring((FOLDER / name).read_text(encoding="utf-8"))


def texts(picture: Element) -> Iterator[tuple[Element, float, float, float]]:
    """Each line of words outside of moved groups, with its ends and its base line."""
    for words in picture.findall(f"{SVG}text"):
        size = float(words.get("font-size", SIZE))
        long, x = width_of(words.text or "", size), float(words.get("x", 0))
        left = {"start": x, "middle": x - long / 2, "end": x - long}
        begin = left[words.get("text-anchor", "start")]
        yield words, begin, begin + long, float(words.get("y", 0))


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_what_the_program_draws(name: str) -> None:
    written = (FOLDER / name).read_text(encoding="utf-8")
    assert written == DRAWN[name](), "make pictures"


@pytest.mark.parametrize("name", DRAWN)
def test_words_stay_within_the_picture_and_within_their_box(name: str) -> None:
    picture = drawn(name)
    width, height = (float(picture.get(side, 0)) for side in ("width", "height"))
    boxes = picture.findall(f"{SVG}rect[@class='box']")
    for words, left, right, y in texts(picture):
        assert 0 < left < right < width, words.text
        assert 0 < y < height, words.text
        for box in boxes:
            x, top = float(box.get("x", 0)), float(box.get("y", 0))
            end, bottom = (
                x + float(box.get("width", 0)),
                top + float(box.get("height", 0)),
            )
            if top < y < bottom and x < (left + right) / 2 < end:
                assert x < left < right < end, words.text


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_suits_light_and_dark_ground(name: str) -> None:
    picture = drawn(name)
    style = picture.findtext(f"{SVG}style") or ""
    _, dark = style.split("@media(prefers-color-scheme:dark)")
    for element in picture.iter():
        kind = element.get("class")
        assert kind is None or style.count(f".{kind}{{") > dark.count(f".{kind}{{") > 0
    assert picture.findtext(f"{SVG}title")


@pytest.mark.parametrize("name", [VIEW, REPORT])
def test_a_screen_is_there_small_and_downloads_nothing(name: str) -> None:
    content = (FOLDER / name).read_bytes()
    assert 0 < len(content) < MOST_BYTES
    assert b"url(http" not in content


def test_every_picture_is_shown_on_a_page_with_words_for_those_who_do_not_see_it() -> (
    None
):
    shown = set[Path]()
    for page in PAGES:
        for words, target in SHOWN.findall(page.read_text(encoding="utf-8")):
            assert len(words.split()) > 3, f"{page}: {target}"
            picture = (page.parent / target).resolve()
            assert picture.is_file(), f"{page}: {target}"
            shown.add(picture)
    pictures = {path for path in FOLDER.iterdir() if path.suffix in (".svg", ".png")}
    assert pictures == {FOLDER / name for name in (*DRAWN, VIEW, REPORT)}
    assert pictures <= shown
