"""The public model and its past: what is kept, for how long, and what it leads to."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from fedcore import payloads
from fedcore.compressors import DeadZone, SignL1, TopK
from fedcore.compressors.base import CompressorConfig
from fedcore.coordinator import published as module
from fedcore.coordinator.published import Entry, Published
from fedcore.params import on_grid
from fedcore.patch import apply_patch, publish
from fedcore.payloads import pack
from fedcore.protocol import Held, Patch
from fedcore.rng import Key
from fedcore.trees import Arrays
from fedcore.typing import Vector

DIM, EPOCH, LATER = 200, "e" * 16, "f" * 16


@dataclass
class Story:
    """A model that is published again and again, and all its versions."""

    downlink: CompressorConfig | None  # None: W = X
    published: Published = field(init=False)
    models: list[Vector] = field(init=False)
    digests: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(0)
        start_D = on_grid(self._rng.standard_normal(DIM).astype(np.float32))
        self.published = Published(start_D, epoch=EPOCH, layout=(DIM,))
        self.models, self.digests = [start_D], [self.published.digest]

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            gap_D = self._rng.standard_t(3, DIM).astype(np.float32) / 50
            if self.downlink is None:
                moved_D = (self.models[-1] - gap_D).astype(np.float32)
                self.published.publish(moved_D, None, None)
            else:
                encode = self.downlink.build((DIM,)).encode
                payload, _ = encode(gap_D, None, Key.root(0))
                public_D = publish(self.models[-1], payload)
                self.published.publish(public_D, pack(payload), payload)
            self.models.append(self.published.public_D)
            self.digests.append(self.published.digest)

    def held(self, version: int, epoch: str = EPOCH) -> Held:
        return Held(epoch, version, self.digests[version])

    def patch(self, version: int) -> Patch:
        """The patch for who holds a version; it leads to the model, bit for bit."""
        patch = self.published.patch(self.held(version))
        model_D = apply_patch(
            self.models[version], patch.kind, patch.messages(), (DIM,)
        )
        assert model_D.tobytes() == self.models[-1].tobytes()
        assert patch.nbytes == sum(patch.lengths) == sum(map(len, patch.parts))
        expected = EPOCH, self.published.version, self.digests[-1]
        assert (patch.epoch, patch.version, patch.digest) == expected
        return patch


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Rings of other lengths than those of a server."""

    def set_to(least: int, most: int) -> None:
        monkeypatch.setattr(module, "LEAST_VERSIONS", least)
        monkeypatch.setattr(module, "MOST_VERSIONS", most)

    return set_to


def test_whoever_is_up_to_date_gets_nothing() -> None:
    story = Story(TopK(ratio=0.02))
    story.step(3)
    patch = story.patch(3)
    assert (patch.kind, patch.start, patch.nbytes) == ("none", 3, 0)


def test_whoever_missed_one_version_gets_its_message_as_it_was() -> None:
    story = Story(TopK(ratio=0.02))
    story.step(5)
    patch = story.patch(4)
    sent = [story.published.ring[5].message]
    assert (patch.kind, patch.start, list(patch.messages())) == ("replay", 4, sent)


@pytest.mark.parametrize("downlink", [TopK(ratio=0.02), DeadZone(ratio=0.05)])
def test_whoever_missed_a_version_whose_message_is_gone_gets_its_values(
    downlink: CompressorConfig,
) -> None:
    story = Story(downlink)
    story.published.keep(0)
    story.step(5)
    for version in (0, 3, 4):
        assert story.patch(version).kind == "overwrite"


def test_many_small_messages_are_no_more_than_the_values_that_they_changed() -> None:
    story = Story(TopK(ratio=0.1))
    story.step(12)
    patch = story.patch(1)
    assert (patch.kind, patch.start) == ("overwrite", 1)
    replayed = sum(entry.message_bytes for entry in story.published.ring[2:])
    assert patch.nbytes < replayed


def test_values_are_sent_where_a_missed_version_may_have_changed_them() -> None:
    story = Story(TopK(ratio=0.02))
    story.published.keep(0)
    story.step(6)
    for version in range(6):
        (packed,) = story.patch(version).messages()
        sent = payloads.unpack(packed, (DIM,)).arrays["indices"]
        supports = [entry.support for entry in story.published.ring[version + 1 :]]
        touched = {int(p) for each in supports if each is not None for p in each}
        assert set(map(int, sent)) == touched
    assert len(sent) < DIM / 10


def test_a_message_that_touches_everything_leaves_replay_or_the_whole_model() -> None:
    story = Story(SignL1())
    story.step(3)
    assert story.patch(1).kind == "replay"
    assert story.published.touched_D is None
    story = Story(None)
    story.step(3)
    assert story.patch(2).kind == "full"
    assert story.patch(0).kind == "full"


@pytest.mark.parametrize("downlink", [TopK(ratio=0.05), SignL1(), None])
def test_no_patch_is_larger_than_the_model(downlink: CompressorConfig | None) -> None:
    story = Story(downlink)
    for _ in range(20):
        story.step(3)
        full = story.published.patch(None)
        for version in range(len(story.models)):
            patch = story.patch(version)
            assert patch.nbytes <= full.nbytes


@pytest.mark.parametrize("find", [Published.patch, Published.nothing_new])
@pytest.mark.parametrize(
    "held",
    [
        Held(LATER, 2, "of another history"),
        Held(EPOCH, 9, "of the future"),
        Held(EPOCH, 2, "0" * 32),
        Held(EPOCH, 0, "0" * 32),
        Held(EPOCH, -1, "0" * 32),
        None,
    ],
)
def test_whoever_holds_something_else_gets_the_whole_model(
    held: Held | None, find: Callable[[Published, Held | None], Patch]
) -> None:
    """Whether it gets a task or not; a history that is gone may have used the name."""
    story = Story(TopK(ratio=0.02))
    story.step(3)
    patch = find(story.published, held)
    assert (patch.kind, patch.start) == ("full", -1)
    arrived_D = apply_patch(None, patch.kind, patch.messages(), (DIM,))
    assert arrived_D.tobytes() == story.models[-1].tobytes()


def test_the_digest_of_the_right_version_is_asked_for() -> None:
    """With the digest of a neighbour, the patch would lead to a wrong model."""
    story = Story(TopK(ratio=0.02))
    story.step(4)
    for version in range(5):
        for other in range(5):
            held = Held(EPOCH, version, story.digests[other])
            is_full = story.published.patch(held).kind == "full"
            assert is_full == (version != other)


def test_a_new_epoch_forgets_the_versions_but_not_the_model() -> None:
    story = Story(TopK(ratio=0.02))
    story.step(3)
    story.published.open_epoch(LATER)
    assert story.published.patch(story.held(2)).kind == "full"
    assert story.published.patch(story.held(3)).kind == "full"
    assert story.published.patch(story.held(3, LATER)).kind == "none"
    assert story.published.patch(story.held(2, LATER)).kind == "full"
    story.step()
    patch = story.published.patch(story.held(3, LATER))
    assert (patch.kind, patch.epoch, patch.version) == ("replay", LATER, 4)


def test_a_patch_is_made_once_and_not_kept_beyond_its_version() -> None:
    story = Story(TopK(ratio=0.05))
    story.step(6)
    assert story.patch(1) is story.patch(1)
    before = story.patch(1)
    story.step()
    assert story.patch(1) is not before


def bookkeeping(published: Published) -> None:
    """What the ring says of itself is what lies in it."""
    ring = published.ring
    assert published._message_bytes == sum(entry.message_bytes for entry in ring)
    assert published._support_bytes == sum(entry.support_bytes for entry in ring)
    assert [entry.version for entry in ring] == list(
        range(published.version - len(ring) + 1, published.version + 1)
    )
    if any(entry.message for entry in ring):
        kept = [place for place, entry in enumerate(ring) if entry.message is not None]
        assert kept == list(range(kept[0], len(ring)))


@pytest.mark.parametrize("room", [0, 100, 999, None])
def test_past_messages_have_so_much_room_and_the_oldest_go_first(
    room: int | None,
) -> None:
    story = Story(TopK(ratio=0.1))
    story.published.keep(room)
    limit = 4 * DIM if room is None else room
    for _ in range(30):
        story.step()
        bookkeeping(story.published)
        ring = story.published.ring
        kept = sum(entry.message_bytes for entry in ring)
        assert kept <= limit
        gone = [entry for entry in ring[1:] if entry.message is None]
        if gone:  # the next older one would not have fitted in
            size = len(pack_of(story, gone[-1].version))
            assert kept + size > limit
        story.patch(max(0, story.published.version - 3))


def pack_of(story: Story, version: int) -> bytes:
    """The message that made a version, made again."""
    again = Story(story.downlink)
    again.published.keep(1 << 30)
    again.step(version)
    message = again.published.ring[version].message
    assert message is not None
    return message


def test_the_ring_has_so_many_versions_at_most(
    short: Callable[[int, int], None],
) -> None:
    short(2, 7)
    story = Story(TopK(ratio=0.005))
    for number in range(1, 20):
        story.step()
        bookkeeping(story.published)
        assert len(story.published.ring) == min(7, number + 1)
    assert story.patch(13).kind != "full"  # the oldest that is known
    assert story.published.patch(story.held(12)).kind == "full"
    assert story.patch(0).kind == "overwrite"  # version 0 is known for ever
    for held in (Held(EPOCH, 12, story.digests[-1]), Held(EPOCH, -1, story.digests[0])):
        assert story.published.patch(held).kind == "full"


def test_a_wrong_model_is_told_by_its_name_as_long_as_the_name_is_known(
    short: Callable[[int, int], None],
) -> None:
    """It knows the digests of version 0 and of the ring, and believes the others."""
    short(2, 7)
    story = Story(TopK(ratio=0.005))
    story.step(19)
    wrong = story.digests[5]
    kinds = [
        story.published.nothing_new(Held(EPOCH, version, wrong)).kind
        for version in (0, 1, 12, 13, 19, 20)
    ]
    believed = story.published.nothing_new(story.held(19)).kind
    assert kinds == ["full", believed, believed, "full", "full", "full"]


def test_coordinates_have_room_for_a_model_but_some_versions_are_kept_anyway(
    short: Callable[[int, int], None],
) -> None:
    short(4, 100)
    story = Story(TopK(ratio=0.3))  # 60 coordinates are 240 bytes, the model is 800
    for _ in range(12):
        story.step()
        bookkeeping(story.published)
    assert len(story.published.ring) == 4
    short(2, 100)
    story.step()
    assert len(story.published.ring) == 3
    assert story.published._support_bytes <= story.published.model_bytes
    bookkeeping(story.published)


def test_coordinates_that_just_fit_are_kept(
    short: Callable[[int, int], None],
) -> None:
    short(2, 100)
    story = Story(TopK(ratio=0.25))  # 50 coordinates are a quarter of the model
    story.step(12)
    assert story.published._support_bytes == story.published.model_bytes
    assert len(story.published.ring) == 4


def test_after_versions_were_dropped_the_oldest_message_still_goes_first(
    short: Callable[[int, int], None],
) -> None:
    short(2, 7)
    story = Story(TopK(ratio=0.005))
    story.step(20)
    assert all(entry.message for entry in story.published.ring)
    story.published.keep(3 * story.published.ring[-1].message_bytes)
    story.step()
    bookkeeping(story.published)
    kept = [entry.message is not None for entry in story.published.ring]
    assert kept[-3:] == [True] * 3
    assert not any(kept[:-4])


def test_a_step_knows_the_version_the_model_and_the_last_message() -> None:
    story = Story(TopK(ratio=0.02))
    downlink = TopK().build((DIM,))
    forgetful, remembering = downlink, downlink._replace(recall=pack)
    context = story.published.context(remembering)
    assert (context.version, context.recalled) == (0, None)
    story.step(2)
    context = story.published.context(remembering)
    assert context.version == 2
    np.testing.assert_array_equal(context.public_D, story.models[-1])
    assert context.recalled == story.published.ring[-1].message
    assert story.published.context(forgetful).recalled is None


def test_what_is_restored_serves_the_same_patches() -> None:
    story = Story(DeadZone(ratio=0.05))
    story.step(10)
    old = story.published
    again = Published(np.zeros(DIM, np.float32), epoch=EPOCH, layout=(DIM,))
    arrays: Arrays = {}
    again.load(old.dump(arrays), arrays)
    assert again.touched_D is not None
    assert old.touched_D is not None
    np.testing.assert_array_equal(again.touched_D, old.touched_D)
    bookkeeping(again)
    for version in range(11):
        held = story.held(version)
        assert again.patch(held) == old.patch(held)


def test_an_entry_says_what_it_takes() -> None:
    support = np.arange(3, dtype=np.int32)
    assert (Entry(1, "d").message_bytes, Entry(1, "d").support_bytes) == (0, 0)
    entry = Entry(1, "d", b"12345", support)
    assert (entry.message_bytes, entry.support_bytes) == (5, 12)
    assert entry.exact is False


def test_patches_that_had_to_be_made_take_about_one_model() -> None:
    """Beyond that, what is sent is in memory anyway."""
    story = Story(TopK(ratio=0.1))
    story.step(40)
    kinds = [story.patch(version).kind for version in range(39)]
    assert "overwrite" in kinds
    made = [p for p in story.published._patches.values() if p.kind == "overwrite"]
    sizes = [patch.nbytes for patch in made]
    assert sum(sizes) - sizes[-1] <= story.published.model_bytes < sum(sizes)
    story.step()
    story.published._patch_bytes = story.published.model_bytes
    assert story.patch(1).kind == "overwrite"  # there is room, to the byte
    assert story.patch(2).kind != "overwrite"
    story.step()
    assert story.patch(1).kind == "overwrite"  # room again


def test_a_sum_is_not_made_of_messages_that_are_gone() -> None:
    story = Story(DeadZone(ratio=0.05))
    story.step(8)
    assert len(story.patch(2).messages()) == 1
    story.published.keep(sum(e.message_bytes for e in story.published.ring[-3:]))
    story.step()
    assert [entry.message is None for entry in story.published.ring[1:]].count(True)
    for version in range(9):
        story.patch(version)


def test_a_sum_is_asked_for_only_where_nothing_was_rounded() -> None:
    exact, rounded = Story(DeadZone(ratio=0.05)), Story(SignL1())
    for story in (exact, rounded):
        story.step(6)
    assert all(entry.exact for entry in exact.published.ring[1:])
    assert len(exact.patch(1).messages()) == 1
    assert not any(entry.exact for entry in rounded.published.ring[1:])
    assert len(rounded.patch(1).messages()) == 5
    assert payloads.decode(payloads.unpack(exact.patch(1).parts[0], (DIM,))).any()
