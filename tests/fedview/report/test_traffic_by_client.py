"""The page shows the bytes that were counted, and only where there is a book."""

import re
from pathlib import Path
from typing import Any

import pytest

from fedcore import payloads
from fedrun.traffic import CONTROL, WAYS, Lane, Load
from fedrun.traffic_file import TrafficFile, read_traffic
from fedrun.units import byte_unit
from fedview.report import write_report
from fedview.report.traffic_by_client import bytes_figure
from fedview.results import Results
from tests.fedview.report.story import Story, short_story


def keep(folder: Path, *, framed: bool = True) -> None:
    """A book beside the story's journal."""
    file = TrafficFile(folder)
    traffic = file.load()
    beside = 30 if framed else 0
    up, down = Lane("id-ann", "up", "sparse"), Lane("id-bob", "down", "values")
    traffic.count(up, framed=132 + beside if framed else 0, payload=132, transfers=3)
    traffic.count(down, framed=456 + beside if framed else 0, payload=456, transfers=3)
    if framed:
        traffic.count(Lane("id-ann", "down", CONTROL), framed=17)
    file.save(traffic)
    file.close()


def test_a_run_without_a_book_has_no_such_part(tmp_path: Path) -> None:
    page = write_report(short_story().write(tmp_path / "run")).read_text()
    assert "in messages" not in page


def test_the_page_has_client_direction_and_codec(tmp_path: Path) -> None:
    folder = short_story().write(tmp_path / "run")
    keep(folder)
    page = write_report(folder).read_text()
    for cell in ("ann", "sparse", "values", "162\u00a0bytes"):
        assert re.search(f"<td[^>]*>{re.escape(cell)}</td>", page), cell
    assert "bytes beside payload for each update" in page


def test_the_headline_is_what_travelled_in_messages(tmp_path: Path) -> None:
    folder = short_story().write(tmp_path / "run")
    keep(folder)
    results = Results(folder)
    traffic = read_traffic(folder)
    assert traffic is not None
    framed = sum(load.framed for load in traffic.lanes().values())
    summary = results.summary
    assert summary["bytes_up"] + summary["bytes_down"] == framed == 162 + 486 + 17
    assert (summary["payload_up"], summary["payload_down"]) == (132, 456)
    page = write_report(folder).read_text()
    assert "162\u00a0bytes\u00a0↑, 503\u00a0bytes\u00a0↓" in page
    assert "588\u00a0bytes of this is payload" in page
    shown = results._repr_html_()
    assert "<tr><th>bytes_up</th><td>162</td></tr>" in shown
    assert "<tr><th>payload_up</th><td>132</td></tr>" in shown


def test_clients_that_only_asked_moved_no_payload(tmp_path: Path) -> None:
    story = Story()
    story.enrol("ann")
    folder = story.write(tmp_path / "run")
    file = TrafficFile(folder)
    traffic = file.load()
    traffic.count(Lane("id-ann", "up", CONTROL), framed=17)
    file.save(traffic)
    file.close()
    assert (
        "neither updates nor models were transferred"
        in write_report(folder).read_text()
    )


def test_a_simulation_has_no_bytes_but_payload(tmp_path: Path) -> None:
    folder = short_story().write(tmp_path / "run")
    keep(folder, framed=False)
    results = Results(folder)
    assert results.messages is None
    assert not results.summary["in_messages"]
    assert results.summary["bytes_up"] == results.summary["payload_up"] == 132
    page = write_report(folder).read_text()
    assert "Payload up and down" in page
    assert "Bytes up and down" not in page
    assert "bytes_up" not in results._repr_html_()


def test_what_a_killed_server_did_not_count_is_told(tmp_path: Path) -> None:
    story = short_story()
    story.decide("ann", 9.7, base=2, nbytes=50)
    folder = story.write(tmp_path / "run")
    keep(folder)
    words = "At least 50\u00a0bytes of payload are missing"
    assert words in write_report(folder).read_text()


def test_a_simulation_says_that_it_has_payloads_alone(tmp_path: Path) -> None:
    folder = short_story().write(tmp_path / "run")
    keep(folder, framed=False)
    page = write_report(folder).read_text()
    assert "what a transport would add is not simulated" in page
    assert "beside payload" not in page


def fills(*lanes: tuple[str, str]) -> dict[str, Any]:
    """The colour and the hatching of each codec, in a report of these lanes."""
    loads = {Lane("ann", way, codec): Load(1, 9, 9) for way, codec in lanes}  # type: ignore[arg-type]
    bars = bytes_figure(loads, {}).data
    return {bar.name: (bar.marker.color, bar.marker.pattern.shape) for bar in bars}


def test_a_codec_has_the_same_colour_in_every_report() -> None:
    every = [form.name for form in payloads.formats()]
    every += [f"{name} deflated" for name in every]
    told = fills(*(("up", codec) for codec in every))
    assert len({*told.values()}) == len(every)
    for codec in every:
        assert fills(("up", codec), ("down", codec)) == {codec: told[codec]}


def test_a_codec_of_both_directions_is_named_once() -> None:
    lanes = {Lane("ann", way, "dense"): Load(1, 9, 9) for way in WAYS}
    assert [bar.showlegend for bar in bytes_figure(lanes, {}).data] == [True, False]


def test_the_figure_adds_up() -> None:
    lanes = {Lane(f"c{n}", "up", "dense"): Load(1, n + 1, n + 9) for n in range(50)}
    lanes[Lane("c49", "down", "sparse")] = Load(1, 7, 9)
    figure = bytes_figure(lanes, {})
    down, up = figure.data
    assert len(up.y) == 30
    assert -sum(up.x) == sum(range(21, 51))
    assert sum(down.x) == 7


def test_the_title_of_the_axis_fits_a_phone() -> None:
    lanes = {Lane("a", way, "dense"): Load(1, 50, 50) for way in WAYS}
    title = bytes_figure(lanes, {"a": "a"}).layout.xaxis.title.text
    assert title.startswith("up ← payload (")
    assert len(title) <= 36  # of some 7 pixels each, in a plot of 270


@pytest.mark.parametrize("most", [1, 50, 1_234, 9_999_999])
def test_no_tick_shows_negative_bytes(most: int) -> None:
    lanes = {Lane("a", way, "dense"): Load(1, most, most) for way in WAYS}
    axis = bytes_figure(lanes, {"a": "a"}).layout.xaxis
    assert not any("-" in words or "−" in words for words in axis.ticktext)
    assert list(axis.ticktext) == list(reversed(axis.ticktext))
    assert axis.tickvals[-1] * byte_unit(most).size >= most
    assert 5 <= len(axis.tickvals) <= 13
