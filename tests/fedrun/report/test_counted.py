"""The page shows the bytes that were counted, and only where there is a book."""

from pathlib import Path

from fedrun.report import write_report
from fedrun.report.counted import counted_figure
from fedrun.traffic import CONTROL, Lane, Load, TrafficFile
from tests.fedrun.report.story import short_story


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
        traffic.cross("id-ann", 1_234, 567)
    file.save(traffic)
    file.close()


def test_a_run_without_a_book_has_no_such_part(tmp_path: Path) -> None:
    page = write_report(short_story().write(tmp_path / "run")).read_text()
    assert "in messages" not in page


def test_the_page_has_client_direction_and_codec(tmp_path: Path) -> None:
    folder = short_story().write(tmp_path / "run")
    keep(folder)
    page = write_report(folder).read_text()
    for cell in ("ann", "sparse", "values", "162\u00a0bytes", "1.23\u00a0kB"):
        assert f"<td>{cell}</td>" in page or f'<td class="r">{cell}</td>' in page, cell
    assert "beside its payloads" in page


def test_a_simulation_says_that_it_has_payloads_alone(tmp_path: Path) -> None:
    folder = short_story().write(tmp_path / "run")
    keep(folder, framed=False)
    page = write_report(folder).read_text()
    assert "what a transport would add is not simulated" in page
    assert "beside its payloads" not in page


def test_the_figure_adds_up() -> None:
    lanes = {Lane(f"c{n}", "up", "dense"): Load(1, n + 1, n + 9) for n in range(50)}
    lanes[Lane("c49", "down", "sparse")] = Load(1, 7, 9)
    figure = counted_figure(lanes, {})
    up, down = figure.data
    assert len(up.y) == 30
    assert -sum(up.x) == sum(range(21, 51))
    assert sum(down.x) == 7
