"""Who is in the model: shares by hand, by brute force, and the sentences."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore.coordinator.events import Departed, Enrolled, Stepped
from fedcore.protocol import Verdict
from fedview.report.coverage import shares_figure
from fedview.results import coverage as module
from fedview.results.coverage import Coverage
from fedview.results.warnings import absence, since, warnings
from tests.fedview.report.story import Story


def covered(story: Story) -> Coverage:
    """What is known after this story."""
    coverage = Coverage()
    for record in story.records:
        coverage.observe(record)
    return coverage


def joined(*names: str) -> Story:
    story = Story()
    for name in names:
        story.enrol(name)
    return story


def test_a_share_is_weight_times_samples_of_accepted_updates() -> None:
    story = joined("ann", "bob")
    story.decide("ann", 1.0, weight=0.5, samples=40)
    story.decide("bob", 2.0, weight=1.0, samples=60)
    story.decide("bob", 3.0, verdict=Verdict.REJECTED_STALE, samples=1000)
    coverage = covered(story)
    assert coverage.share("id-ann") == pytest.approx(20 / 80)
    assert coverage.recent_share("id-bob") == pytest.approx(60 / 80)
    assert coverage.clients["id-bob"].updates == 1


def test_samples_count_as_the_recipe_counts_them() -> None:
    story = joined("ann", "bob")
    story.decide("ann", 1.0, samples=10)
    story.decide("bob", 2.0, samples=10_000)
    coverage = Coverage(counted=lambda samples: min(samples, 30))
    for record in story.records:
        coverage.observe(record)
    assert coverage.share("id-ann") == pytest.approx(0.25)


def test_a_label_has_the_part_of_an_update_that_used_it() -> None:
    story = joined("ann", "bob")
    story.decide("ann", 1.0, weight=0.5, counts=(5, 15))
    story.decide("bob", 2.0, weight=1.0, counts=(0, 0, 7))
    labels = covered(story).labels
    assert [labels[c].share for c in range(3)] == pytest.approx(
        [1 / 12, 3 / 12, 8 / 12]
    )
    assert [label.version for label in labels.values()] == [0, 0, 0]


def test_who_is_missing_and_since_when() -> None:
    story = joined("ann", "bob", "cid", "dan", "eve")
    story.decide("bob", 1.0)
    story.step(1, 1.0)
    story.decide("cid", 2.0)
    story.decide("dan", 2.0)
    story.records.append(Departed(at=2.5, cid="id-dan"))
    for number in range(2, 200):
        story.decide("ann", number)
        story.step(number, number)
    missing = covered(story).missing
    told = [(client.name, since(client)) for client in missing]
    assert told == [
        ("eve", "never"),
        ("bob", "since version 0"),
        ("cid", "since version 1"),
    ]


def test_few_clients_that_dominate_are_named() -> None:
    names = [f"c{number}" for number in range(20)]
    story = joined(*names)
    for _ in range(5):
        for name in names:
            story.decide(name, 1.0, samples={"c3": 120, "c7": 100}.get(name, 10))
    assert warnings(covered(story)) == [
        "2 of 20 clients make up half of the last 100 updates: c3 (30%), c7 (25%)."
    ]


@pytest.mark.parametrize("steps", [2890, 9])
def test_a_long_task_that_is_hardly_heard_is_named(steps: int) -> None:
    story = joined("tiny", "ann", "bob", "eva", "large")
    for _ in range(63):
        story.decide("tiny", 1.0, steps=2)
    for name in ("ann", "bob", "eva"):
        for _ in range(40):
            story.decide(name, 1.0, steps=5)
    story.decide("large", 1.0, steps=steps)
    told = [text for text in warnings(covered(story)) if "long tasks" in text]
    assert told == [
        "large takes 2,890 steps for an update and made 1 of 184, tiny takes 2 "
        "and made 63: long tasks count little here; algorithm.client.steps gives all "
        "clients tasks of one length."
    ] * (steps == 2890)


def test_clients_of_equal_shares_are_no_warning() -> None:
    story = joined(*(f"c{number}" for number in range(20)))
    for _ in range(10):
        for number in range(20):
            story.decide(f"c{number}", 1.0)
    assert warnings(covered(story)) == []


def test_a_label_that_fades_is_named_with_its_last_version() -> None:
    story = joined("ann", "bob")
    for number in range(60):
        story.decide("ann", number, counts=(5, 5))
        story.step(number + 1, number)
    for number in range(60, 200):
        story.decide("bob", number, counts=(5, 0))
        story.step(number + 1, number)
    assert warnings(covered(story)) == [
        "Label that fades in the last 100 updates: 1 (0.0%, 15.0% of all, last used at "
        "version 59)."
    ]


updates = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.floats(0.01, 3.0),
        st.integers(1, 50),
        st.none() | st.lists(st.integers(0, 9), min_size=1, max_size=4),
    ),
    max_size=60,
)


@given(updates)
def test_recent_shares_are_those_of_the_last_updates(
    told: list[tuple[int, float, int, list[int] | None]],
) -> None:
    window = 12
    story = joined(*(f"c{number}" for number in range(6)))
    for number, weight, samples, counts in told:
        story.decide(
            f"c{number}",
            1.0,
            weight=weight,
            samples=samples,
            counts=None if counts is None else tuple(counts),
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LEAST_RECENT", window)
        patch.setattr(module, "EACH", 1)
        coverage = covered(story)
    masses, labels = np.zeros(6), np.zeros(4)
    for number, weight, samples, counts in told[-window:]:
        masses[number] += weight * samples
        if counts and sum(counts):
            counted = np.pad(np.array(counts, float), (0, 4 - len(counts)))
            labels += weight * samples * counted / counted.sum()
    whole = masses.sum() or 1.0
    shares = [coverage.recent_share(f"id-c{number}") for number in range(6)]
    assert shares == pytest.approx(masses / whole, abs=1e-9)
    found = np.zeros(4)
    for label, told_label in coverage.labels.items():
        found[label] = told_label.recent
    assert found == pytest.approx(labels / (labels.sum() or 1.0), abs=1e-9)


def test_one_huge_claim_leaves_no_trace_once_it_is_not_recent() -> None:
    """What is left of small numbers beside a large one was nothing, or negative."""
    story = joined("ann", "bob", "cid", "dan")
    story.decide("ann", 1.0, samples=1 << 40, counts=(1, 0))
    for number in range(150):
        name = ("bob", "cid", "dan")[number % 3]
        story.decide(name, 1.0, samples=1, weight=1e-5, counts=(1, 3))
    coverage = covered(story)
    shares = [coverage.recent_share(f"id-{name}") for name in ("ann", "bob", "dan")]
    assert shares == pytest.approx([0.0, 0.33, 0.34])
    assert coverage.recent_mass == pytest.approx(1e-3)
    assert coverage.labels[1].recent == pytest.approx(0.75)
    assert warnings(coverage) == []


def test_updates_of_no_weight_have_no_share() -> None:
    story = joined("ann")
    story.decide("ann", 1.0, weight=0.0, counts=(2,))
    coverage = covered(story)
    assert coverage.recent_share("id-ann") == coverage.share("id-ann") == 0.0
    assert not coverage.half
    assert not warnings(coverage)


def test_who_begins_anew_under_its_name_is_not_missing() -> None:
    story = joined("ann", "bob")
    story.decide("ann", 1.0)
    story.enrol("ann", cid="anew")
    for number in range(200):
        story.decide("bob", 2.0 + number)
    assert [client.cid for client in covered(story).missing] == ["anew"]
    story.enrol("bob", cid="twin")
    story.decide("bob", 300.0)
    for _ in range(100):
        story.decide("bob", 301.0, cid="twin")
    coverage = covered(story)
    assert [client.cid for client in coverage.missing] == ["anew"]
    assert absence(coverage) == (
        "1 of 2 clients had no part in the last 100 updates: ann (never)."
    )
    assert coverage.is_replaced("id-bob")
    assert not coverage.is_replaced("twin")
    assert not coverage.is_replaced("an evaluator")


def steps(coverage: Coverage, reason: Any, count: int, times: int) -> None:
    told: dict[str, Any] = {"samples": 1.0, "digest": "", "gap_norm": 0.0}
    for at in range(times):
        version = Stepped(
            at=at, version=at, reason=reason, count=count, nbytes=1, payload=b"", **told
        )
        coverage.observe(version)


def test_versions_that_hold_fewer_updates_than_before_are_a_warning() -> None:
    coverage = Coverage()
    coverage.short.buffer = 2
    steps(coverage, "complete", 1, 20)
    assert not warnings(coverage)  # there were never more clients
    steps(coverage, "buffer", 2, 1)
    steps(coverage, "complete", 1, 9)
    assert not warnings(coverage)
    assert not coverage.short.news()
    steps(coverage, "complete", 1, 1)
    said = (
        "ersions hold 1 update of the 2 that algorithm.buffer asks for, since no more "
        "clients are there; algorithm.minimum says how many a version needs at least"
    )
    assert warnings(coverage) == [f"V{said}."]
    assert [coverage.short.news(), coverage.short.news()] == [f"v{said}", ""]
    steps(coverage, "flush", 1, 1)
    assert warnings(coverage)
    steps(coverage, "buffer", 2, 1)
    assert not warnings(coverage)


def test_who_takes_a_name_that_was_given_up_replaces_nobody() -> None:
    story = joined("ann")
    story.enrol("anna", cid="id-ann")
    story.enrol("ann", cid="other")
    missing = [client.cid for client in covered(story).missing]
    assert missing == ["id-ann", "other"]


def test_the_labels_of_many_recent_updates_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_VALUES", 250)
    story = joined("ann")
    for number in range(90):
        story.decide("ann", number, counts=(1, *[0] * 9) if number < 60 else (0, 1))
    story.decide("ann", 90.0, counts=(1, *[0] * 9))
    coverage = covered(story)
    assert coverage.recent_updates == 91
    assert sum(map(len, coverage._portions)) <= 250
    kept = 1 + (250 - 10 - 60) // 10
    assert coverage.labels[0].recent == pytest.approx(kept / (kept + 30))


def test_evaluators_have_no_share() -> None:
    coverage = Coverage()
    coverage.observe(Enrolled(at=0.0, cid="e", name="judge", role="evaluator"))
    assert not coverage.clients
    assert coverage.half == coverage.missing == []


def test_a_figure_shows_the_labels_with_the_largest_shares() -> None:
    """A vocabulary has fifty thousand."""
    story = joined("ann")
    story.decide("ann", 1.0, counts=tuple(range(1000)))
    figure = shares_figure(covered(story))
    for bars in figure.data[2:]:
        assert list(bars.x) == list(range(700, 1000))
        assert sum(bars.y) == pytest.approx(100 * sum(range(700, 1000)) / 499_500)
    assert figure.layout.xaxis2.title.text == "label (those 300 of 999 with most)"
