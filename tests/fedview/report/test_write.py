import hashlib
import json
import re
import time
from base64 import b64encode
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcore.coordinator.events import ServerStarted
from fedcore.errors import ConfigError, JournalError
from fedcore.protocol import Verdict
from fedview.report import write_report
from fedview.report.client_timelines import Doing
from tests.fedview.report.story import Story, short_story
from tests.imports import imported_by

SECTIONS = (
    "learning",
    "coverage",
    "staleness",
    "updates",
    "bytes",
    "clients",
    "memory",
    "data",
)
NASTY = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    '<a href="https://evil.example">x</a>',
    "a & b 'quoted\" </section>",
]


class Page(HTMLParser):
    """What a browser would make of a page: elements, their attributes, and text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.words = ""
        self._in_script: dict[str, str | None] | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._in_script = dict(attrs) if tag == "script" else None
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self._in_script = None

    def handle_data(self, data: str) -> None:
        if self._in_script is None:
            self.words += data
        else:
            attrs, before = self.scripts[-1]
            self.scripts[-1] = (attrs, before + data)

    def tags(self) -> set[str]:
        return {tag for tag, _ in self.elements}

    def figures(self) -> list[Any]:
        return [json.loads(text) for attrs, text in self.scripts if "type" in attrs]

    def programs(self) -> list[str]:
        return [text for attrs, text in self.scripts if "type" not in attrs]


def page_of(story: Story, folder: Path) -> Page:
    return Page(write_report(story.write(folder / "run")).read_text(encoding="utf-8"))


def test_the_report_lies_in_the_runs_folder_if_not_told_otherwise(
    tmp_path: Path,
) -> None:
    run = short_story().write(tmp_path / "run")
    assert write_report(run) == run / "report.html"
    other = tmp_path / "new" / "page.html"
    assert write_report(run, other) == other
    links = dict(re.findall(r'<a href="([^"#]+)">([^<]+)</a>', other.read_text()))
    assert links == {"../run/models/initial.safetensors": "initial.safetensors"}
    assert (other.parent / "../run/models/initial.safetensors").is_file()


def test_the_page_tells_the_whole_story(tmp_path: Path) -> None:
    page = page_of(short_story(), tmp_path)
    anchors = [a["id"] for tag, a in page.elements if tag == "section"]
    assert tuple(anchors) == SECTIONS
    for words in (
        "Run 0123456789abcdef",
        "Recipe latecomer: A buffer",
        "Nothing was lost.",
        "best 0.6 at version 1",
        "3 updates got a verdict",
        "rejected, stale",
        "3 evaluations by the evaluator",
        "kind: latecomer",  # the settings
        "results.updates",  # how to read it
    ):
        assert words in page.words
    assert len(page.figures()) == 7


def test_the_first_screen_tells_what_was_learnt_against_the_target(
    tmp_path: Path,
) -> None:
    story = short_story()
    target = {"accuracy": 0.55, "loss": 0.5}
    story.config |= {
        "app": "/home/me/digits/app.py:workload",
        "stop": {"target": target},
    }
    page = page_of(story, tmp_path)
    words = " ".join(page.words.split())
    assert "digits/app.py:workload: accuracy 0.5" in words
    aim = "target of at least 0.55 reached at version 1, after 3 s"
    assert f"{aim}; best 0.6 at version 1" in words
    assert "target of at most 0.5 not reached" in words
    classes = [a.get("class") for _, a in page.elements]
    assert classes.index("tile") < classes.index("verdict")


def test_the_downtime_of_the_server_is_a_band_in_every_plot_over_time(
    tmp_path: Path,
) -> None:
    story = short_story()
    story.records.insert(0, ServerStarted(at=0.0))
    story.records.insert(-1, ServerStarted(at=9.75))  # after the record of 9.5
    page = page_of(story, tmp_path)
    bands = [
        [
            s
            for s in figure["layout"].get("shapes", [])
            if s.get("name") == "server down"
        ]
        for figure in page.figures()
    ]
    drawn = [shapes for shapes in bands if shapes]
    assert len(drawn) == 3  # learning, bytes, clients
    assert {(s["x0"], s["x1"]) for shapes in drawn for s in shapes} == {(9.5, 9.75)}
    assert "server killed" in page.words
    assert "after 0.25 s without a server" in page.words
    assert "down for 0.25 s" in page.words


def test_of_many_clients_the_page_draws_how_many_did_what(tmp_path: Path) -> None:
    page = page_of(long_story(60, 600), tmp_path)
    (figure,) = [f for f in page.figures() if any("stackgroup" in t for t in f["data"])]
    assert {t["name"] for t in figure["data"]} <= {d.value for d in Doing}
    assert figure["layout"]["yaxis"]["range"] == [0, 60]
    assert "The 40 clients with the most trouble" in page.words


def test_every_axis_has_a_title_with_its_unit(tmp_path: Path) -> None:
    titles = set()
    for figure in page_of(short_story(), tmp_path).figures():
        for name, axis in figure["layout"].items():
            if name.startswith("xaxis") and axis.get("showticklabels", True):
                titles.add(axis["title"]["text"])
    assert titles == {
        "time (seconds)",
        "version",
        "payload, up and down (bytes)",
        "% of the clients, largest first",
        "staleness (versions)",
        "updates",
        "mean staleness (versions)",
        "mean λ",
    }


def test_a_run_without_anything_has_a_page_without_plots(tmp_path: Path) -> None:
    page = page_of(Story(), tmp_path)
    assert page.figures() == []
    assert "No update has arrived." in page.words
    assert "No model was evaluated" in page.words
    assert (tmp_path / "run" / "report.html").stat().st_size < 50_000


def test_a_run_without_an_evaluator_shows_the_training_loss(tmp_path: Path) -> None:
    story = Story()
    story.enrol("ann")
    for i in range(30):
        story.lease("ann", float(i), i)
        loss = None if i % 7 == 0 else float("nan") if i % 5 == 0 else 1 / (i + 1)
        story.decide("ann", i + 0.5, i, loss=loss)
        story.step(i + 1, i + 0.5)
    page = page_of(story, tmp_path)
    assert "No model was evaluated" in page.words
    names = {trace["name"] for trace in page.figures()[0]["data"]}
    assert names == {"training loss of updates"}


def test_what_clients_measured_stands_where_no_evaluator_was(tmp_path: Path) -> None:
    story = Story()
    story.enrol("ann")
    story.step(1, 1.0)
    story.measure("ann", 2.0, 1, samples=0, accuracy=0.25)
    page = page_of(story, tmp_path)
    assert "Evaluations of 1 version by clients" in page.words
    assert "by 1 client, weighted by samples" in page.words
    assert "The last evaluation by each client, on its own data" in page.words


def test_names_and_reasons_stay_text(tmp_path: Path) -> None:
    story = Story(run_id=NASTY[0], config={"app": NASTY[1]})
    story.enrol(NASTY[2], role="evaluator")
    for name in NASTY:
        story.enrol(name, cid=name)
        story.lease(name, 1.0, cid=name)
        story.decide(
            name, 2.0, cid=name, verdict=Verdict.REJECTED_POLICY, reason=NASTY[1]
        )
        story.measure(name, 3.0, 0, 10, **{NASTY[0]: 0.5})
    story.fork_history(4.0, 0, NASTY[1])
    story.close(5.0, 0, NASTY[0])
    page = page_of(story, tmp_path)
    assert not page.tags() & {"img", "b", "iframe", "link", "object"}
    assert len(page.programs()) == 2  # plotly.js and the page's own
    assert {a["href"] for tag, a in page.elements if tag == "a"} == {
        *(f"#{anchor}" for anchor in SECTIONS),
        "models/initial.safetensors",
    }
    assert f"Run {NASTY[0]}" in page.words
    assert NASTY[1] in page.words
    shown = json.dumps(page.figures())
    assert "alert" in shown
    assert "<script" not in shown
    assert "<img" not in shown
    assert "<a " not in shown


def test_the_page_loads_nothing_and_runs_its_own_scripts_only(tmp_path: Path) -> None:
    page = page_of(short_story(), tmp_path)
    for tag, attributes in page.elements:
        assert "src" not in attributes, tag
        assert not (attributes.get("href") or "").startswith(("http", "//")), tag
    policy = next(
        a["content"] for _, a in page.elements if "http-equiv" in a and a["content"]
    )
    assert policy.startswith("default-src 'none'; ")
    digests = [
        b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in page.programs()
    ]
    assert [f"'sha256-{d}'" for d in digests] == policy.split("script-src ")[1].split()


def test_no_chart_is_ever_sent_to_a_cloud(tmp_path: Path) -> None:
    *_, own = page_of(short_story(), tmp_path).programs()
    assert "showSendToCloud: false" in own
    assert 'plotlyServerURL: ""' in own


def test_both_themes_are_in_the_page(tmp_path: Path) -> None:
    text = write_report(short_story().write(tmp_path / "run")).read_text()
    assert "prefers-color-scheme: dark" in text
    own = Page(text).programs()[-1]
    themes = re.search(r"const themes = (\{.*\});", own)
    assert themes is not None
    assert set(json.loads(themes[1])) == {"light", "dark"}


def test_the_same_run_gives_the_same_page(tmp_path: Path) -> None:
    run = short_story().write(tmp_path / "run")
    first = write_report(run).read_bytes()
    assert write_report(run).read_bytes() == first


def test_a_folder_without_a_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="no journal here"):
        write_report(tmp_path)


def test_where_plotly_is_left_out_a_sentence_says_where_to_write_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedview.report.write.is_installed", lambda module: False)
    with pytest.raises(ConfigError, match=r"needs the package plotly, which images"):
        write_report(tmp_path)


def test_the_package_is_imported_without_plotly_and_torch() -> None:
    assert imported_by("fedview.report", {"plotly", "torch"}) == set()


def long_story(clients: int, updates: int) -> Story:
    rng = np.random.default_rng(0)
    story = Story()
    names = [f"phone-{i}" for i in range(clients)]
    for name in names:
        story.enrol(name)
    story.enrol("judge", role="evaluator")
    for i in range(updates):
        name, at, version = names[i % clients], float(i), i // 4
        story.lease(name, at, version)
        staleness = int(rng.pareto(1.0) * 5)
        story.decide(
            name,
            at + 0.5,
            version,
            staleness=staleness,
            memory_norm=float(rng.random()),
            update_norm=float(rng.random()),
        )
        if i % 4 == 3:
            story.step(version + 1, at + 0.6, 4, gap=float(rng.random()))
            story.measure("judge", at + 0.7, version + 1, accuracy=float(rng.random()))
        if i % 11 == 0:
            story.lose(name, at + 0.8)
    return story


@pytest.mark.parametrize("clients", [12, 500])
def test_a_long_run_has_a_small_page(tmp_path: Path, clients: int) -> None:
    run = long_story(clients, 20_000).write(tmp_path / "run")
    before = time.process_time()
    report = write_report(run)
    assert time.process_time() - before < 10
    size = report.stat().st_size
    assert size < 8e6
    page = Page(report.read_text())
    assert size - len(page.programs()[0]) < 1.5e6  # all that is not plotly.js
    assert "400 of 5,000 versions evaluated by the evaluator are drawn" in page.words
    assert ("40 of 500 clients are drawn" in page.words) == (clients == 500)
    assert ("Drawn in steps of" in page.words) == (clients == 12)
    assert "The last bar holds all from" in page.words
