"""The public model W, and the smallest patches to it from older versions.

Each version is encoded once and served to all clients. A ring keeps the last versions:
their digests, the coordinates that they touched, and their messages, up to the size of
one model or the size in the config. A client that holds an older
version gets the full model. Version 0 is special, since a newcomer can derive it: the
coordinates touched since then are kept for the whole run (D/8 bytes). Messages that
moved W without rounding may be sent as their sum.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcore import payloads
from fedcore.compressors import Compressor, Context
from fedcore.params import digest, is_named
from fedcore.patch import moves_exactly
from fedcore.payloads import Layout, Payload, dense_payload, values_payload
from fedcore.protocol import Epoch, Held, Patch, PatchKind
from fedcore.trees import Arrays
from fedcore.typing import JSON, Bytes, Vector

# ----------------- sums of published messages, for clients that missed several of them
#
# Messages are sums of whole numbers. So each sum is made from the nearest known one, by
# adding missing messages and subtracting surplus ones. In the long run, a new version
# costs one addition for each older one that a client holds. Messages in which no
# entries cancel are merged anew each time.


ENTRY = 12  # bytes of an index and a level


class Sums:
    """The last sums, up to the size of one model."""

    def __init__(self, layout: Layout) -> None:
        self._layout, self._room = layout, 4 * sum(layout)
        self._known: dict[int, tuple[int, Payload]] = {}  # by start: end, and the sum
        self._size = 0

    def over(self, start: int, messages: Mapping[int, bytes]) -> Payload | None:
        """The sum of all messages after version ``start``.

        Args:
            start: the version that a client holds.
            messages: all packed messages that are kept, by version.

        Returns:
            The sum, or None if it would be rounded.
        """
        end = max(messages)
        if not payloads.cancels(self._read(messages[end])):
            missed = [messages[version] for version in range(start + 1, end + 1)]
            return payloads.merge(list(map(self._read, missed)))
        known, plus, minus = self._nearest(start, end, messages)
        parts = [known] if known is not None else []
        parts += [self._read(messages[version]) for version in plus]
        parts += [payloads.negative(self._read(messages[v])) for v in minus]
        total = payloads.merge(parts)
        self._forget(start)
        if total is not None:
            self._keep(start, end, total)
        return total

    def _nearest(
        self, start: int, end: int, messages: Mapping[int, bytes]
    ) -> tuple[Payload | None, range, range]:
        """The nearest known sum, the messages that it lacks, and those to subtract."""
        found: tuple[Payload | None, range, range]
        found = None, range(start + 1, end + 1), range(0)
        for known, (until, total) in self._known.items():
            if known == start:
                way = total, range(until + 1, end + 1), range(0)
            elif until == end and known > start:
                way = total, range(start + 1, known + 1), range(0)
            elif until == end and known + 1 in messages:
                way = total, range(0), range(known + 1, start + 1)
            else:
                continue
            if len(way[1]) + len(way[2]) < len(found[1]) + len(found[2]):
                found = way
        return found

    def _read(self, packed: bytes) -> Payload:
        return payloads.unpack(packed, self._layout)

    def _keep(self, start: int, end: int, total: Payload) -> None:
        self._known[start] = (end, total)
        self._size += _size(total)
        while self._size > self._room and len(self._known) > 1:
            self._forget(next(iter(self._known)))

    def _forget(self, start: int) -> None:
        if start in self._known:
            self._size -= _size(self._known.pop(start)[1])


def _size(total: Payload) -> int:
    return ENTRY * len(total.arrays["indices"])


# -------------- the public model W, and the smallest patches to it from older versions


LEAST_VERSIONS, MOST_VERSIONS = 64, 4096


@dataclass(frozen=True, slots=True)
class Entry:
    """One version: its digest, and its message from the version before."""

    version: int
    digest: str
    message: bytes | None = None  # None: too old to keep, or W = X
    support: npt.NDArray[np.int32] | None = None  # None: all coordinates
    exact: bool = False  # whether the message moved W without rounding

    @property
    def message_bytes(self) -> int:
        """The size of its message in memory."""
        return 0 if self.message is None else len(self.message)

    @property
    def support_bytes(self) -> int:
        """The size of its coordinates in memory."""
        return 0 if self.support is None else int(self.support.nbytes)


class Published:
    """W and its last versions. A step makes a new model and writes into none."""

    def __init__(
        self, public_D: Vector, *, epoch: Epoch, layout: Layout, served: bool = True
    ) -> None:
        """Starts with version 0.

        Args:
            public_D: version 0.
            epoch: the name of the first history.
            layout: the values of each tensor.
            served: clients ask for versions. If not, no patches can be made, and a
                digest is computed only if somebody asks for it.
        """
        self._served = served
        self.epoch = epoch
        self.version = 0
        self.public_D = public_D
        self.origin = self._digest = digest(public_D)
        self.layout = layout
        self.keep(None)
        # Coordinates touched since version 0; None: all.
        self.touched_D: npt.NDArray[np.bool_] | None = np.zeros(len(public_D), bool)
        self._start_ring([Entry(0, self.digest)])

    @property
    def digest(self) -> str:
        """The digest of the newest version."""
        if not self._digest:
            self._digest = digest(self.public_D)
        return self._digest

    @property
    def model_bytes(self) -> int:
        """The size of one model in bytes."""
        return int(self.public_D.nbytes)

    def keep(self, nbytes: int | None) -> None:
        """Limits the bytes of past messages; None: to the size of the model."""
        self._room = self.model_bytes if nbytes is None else nbytes

    def publish(
        self, public_D: Vector, packed: bytes | None, message: Payload | None
    ) -> None:
        """Publishes the next version.

        Args:
            public_D: the new model.
            packed: the message that led to it, as it travels; None where W = X.
            message: the same message, decoded.
        """
        self.version += 1
        if not self._served:
            self.public_D, self._digest = public_D, ""
            self._start_ring([Entry(self.version, "", packed)])
            return
        support = None if message is None else payloads.support(message)
        exact = moves_exactly(self.public_D, message, public_D)
        self.public_D, self._digest = public_D, digest(public_D)
        if support is None:
            self.touched_D = None
        elif self.touched_D is not None:
            self.touched_D[support] = True
        narrow = None if support is None else support.astype(np.int32)
        self._append(Entry(self.version, self.digest, packed, narrow, exact))
        self._forget_patches()

    def context(self, downlink: Compressor, rate: float = 1.0) -> Context:
        """Returns what the downlink's compressor knows when it makes a version."""
        packed, recalled = self.ring[-1].message, None
        if packed is not None and downlink.recall is not None:
            recalled = downlink.recall(payloads.unpack(packed, self.layout))
        return Context(self.version, self.public_D, recalled, rate)

    def open_epoch(self, epoch: Epoch) -> None:
        """Starts a new history: no version of the old one is a base any longer."""
        self.epoch = epoch
        self._start_ring([Entry(self.version, self.digest)])

    def dump(self, arrays: Arrays) -> JSON:
        """The state as JSON; puts its vectors into ``arrays``."""
        arrays["public"] = self.public_D
        if self.touched_D is not None:
            arrays["touched"] = np.packbits(self.touched_D)
        for entry in self.ring:
            if entry.message is not None:
                message = np.frombuffer(entry.message, np.uint8)
                arrays[f"message.{entry.version}"] = message
            if entry.support is not None:
                arrays[f"support.{entry.version}"] = entry.support
        return {
            "epoch": self.epoch,
            "version": self.version,
            "origin": self.origin,
            "ring": [[entry.version, entry.digest, entry.exact] for entry in self.ring],
        }

    def load(self, scalars: JSON, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Takes over the state that :meth:`dump` returned."""
        self.epoch, self.version = scalars["epoch"], scalars["version"]
        self.origin, self.public_D = scalars["origin"], arrays["public"]
        self._digest = digest(self.public_D)
        touched, dim = arrays.get("touched"), len(self.public_D)
        self.touched_D = (
            None if touched is None else np.unpackbits(touched, count=dim).view(bool)
        )
        entries = []
        for version, named, exact in scalars["ring"]:
            saved = arrays.get(f"message.{version}")
            message = None if saved is None else saved.tobytes()
            support = arrays.get(f"support.{version}")
            entries.append(Entry(version, named, message, support, exact))
        self._start_ring(entries)

    def patch(self, held: Held | None) -> Patch:
        """The smallest patch from a held model to this one; empty if it is this one."""
        if held is None or not self._knows(held):
            return self._full()
        if held.version == self.version:
            return Patch.nothing(self.epoch, self.version, self.digest)
        if held.version not in self._patches:
            self._patches[held.version] = self._smallest(held.version)
        return self._patches[held.version]

    def group_model(self, group: int, make: Callable[[], Vector]) -> Vector:
        """Returns the model of a group at this version, which is made once."""
        if group not in self._models:
            self._models[group] = make()
        return self._models[group]

    def group_patch(self, group: int, model_D: Vector, held: Held | None) -> Patch:
        """All of the model of a group; an empty patch if it is the one that is held."""
        patch = self._whole.get(group)
        if patch is None:
            whole = replace(self._full(model_D), digest=digest(model_D))
            patch = self._whole[group] = whole
        if (
            held is not None
            and (held.epoch, held.version) == (self.epoch, self.version)
            and is_named(patch.digest, held.digest)
        ):
            return Patch.nothing(self.epoch, self.version, patch.digest)
        return patch

    def nothing_new(self, held: Held | None) -> Patch:
        """Returns an empty patch for a client without a task; its next task brings all.

        A client without a model, with one that it had to drop, or with one that was
        never published under this name, gets the newest one.
        """
        if held is None or not held.digest or self._denies(held):
            return self.patch(held)
        return Patch.nothing(self.epoch, held.version, held.digest)

    def _knows(self, held: Held) -> bool:
        if held.epoch != self.epoch or held.version > self.version:
            return False
        if held.version == 0 and is_named(self.origin, held.digest):
            return True
        place = held.version - self.ring[0].version
        return place >= 0 and is_named(self.ring[place].digest, held.digest)

    def _denies(self, held: Held) -> bool:
        """Whether this history has another model, or none, under the name of this one.

        The server may have been set back unseen. Of a version before the ring nobody
        knows the digest any more, so it is believed until its client gets a task.
        """
        if not 0 <= held.version <= self.version:
            return True
        is_kept = held.version == 0 or held.version >= self.ring[0].version
        return is_kept and not self._knows(held)

    def _smallest(self, start: int) -> Patch:
        full, replay = self._full(), self._replay(start)
        is_message = replay is not None and len(replay.parts) == 1
        # Nothing is shorter than one message. No further patches are made once those
        # that are kept have the size of a model.
        made = None
        if not is_message and self._patch_bytes <= self.model_bytes:
            # A sum has no more entries than values to overwrite, of fewer bytes.
            made = self._sum(start) or self._overwrite(start)
        patches = filter(None, [replay, made, full])
        best = min(patches, key=lambda patch: patch.nbytes)
        if best is made:
            self._patch_bytes += best.nbytes
        return best

    def _full(self, model_D: Vector | None = None) -> Patch:
        """All of W, or of a group's model."""
        whole_D = self.public_D if model_D is None else model_D
        parts = payloads.pack_parts(dense_payload(whole_D))
        return self._make_patch("full", -1, parts, [sum(map(len, parts))])

    def _find_missed(self, start: int) -> list[Entry]:
        """The versions after ``start``; none if one of their messages was dropped."""
        place = start - self.ring[0].version + 1
        missed = self.ring[place:] if place >= 1 else []
        return [] if any(entry.message is None for entry in missed) else missed

    def _replay(self, start: int) -> Patch | None:
        kept = [entry.message or b"" for entry in self._find_missed(start)]
        return (
            self._make_patch("replay", start, kept, list(map(len, kept)))
            if kept
            else None
        )

    def _sum(self, start: int) -> Patch | None:
        """A replay of one message, the sum of all, where no addition was rounded."""
        missed = self._find_missed(start)
        if not missed or not all(entry.exact for entry in missed):
            return None
        messages = {
            entry.version: entry.message
            for entry in self.ring
            if entry.exact and entry.message is not None
        }
        total = self._sums.over(start, messages)
        if total is None:
            return None
        packed = payloads.pack(total)
        return self._make_patch("replay", start, [packed], [len(packed)])

    def _overwrite(self, start: int) -> Patch | None:
        marks = self._marks(start)
        if marks is None:
            return None
        indices = np.flatnonzero(marks)
        values = values_payload(len(marks), indices, self.public_D[indices])
        packed = payloads.pack(values)
        return self._make_patch("overwrite", start, [packed], [len(packed)])

    def _marks(self, start: int) -> npt.NDArray[np.bool_] | None:
        """Marks the coordinates that may differ; None: all of them may."""
        place = start - self.ring[0].version + 1
        if place < 1:
            return self.touched_D  # only version 0 gets here
        marks = np.zeros(len(self.public_D), bool)
        for entry in self.ring[place:]:
            if entry.support is None:
                return None
            marks[entry.support] = True
        return marks

    def _make_patch(
        self,
        kind: PatchKind,
        start: int,
        parts: Sequence[Bytes],
        lengths: Sequence[int],
    ) -> Patch:
        return Patch(
            kind=kind,
            epoch=self.epoch,
            start=start,
            version=self.version,
            digest=self.digest,
            parts=tuple(parts),
            lengths=tuple(lengths),
        )

    def _start_ring(self, entries: Iterable[Entry]) -> None:
        self.ring: list[Entry] = []
        self._with_message = 0  # the first place whose message is still kept
        self._message_bytes = self._support_bytes = 0
        self._sums = Sums(self.layout)
        for entry in entries:
            self._append(entry)
        self._forget_patches()

    def _append(self, entry: Entry) -> None:
        """Adds a version, and drops the oldest data for which there is no room."""
        self.ring.append(entry)
        self._message_bytes += entry.message_bytes
        self._support_bytes += entry.support_bytes
        while self._message_bytes > self._room:
            old = self.ring[self._with_message]
            self._message_bytes -= old.message_bytes
            self.ring[self._with_message] = replace(old, message=None)
            self._with_message += 1
        while (
            self._support_bytes > self.model_bytes and len(self.ring) > LEAST_VERSIONS
        ):
            self._drop_oldest()
        while len(self.ring) > MOST_VERSIONS:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        old = self.ring.pop(0)
        self._message_bytes -= old.message_bytes
        self._support_bytes -= old.support_bytes
        self._with_message = max(0, self._with_message - 1)

    def _forget_patches(self) -> None:
        self._patches: dict[int, Patch] = {}
        self._patch_bytes = 0
        self._models: dict[int, Vector] = {}  # of groups
        self._whole: dict[int, Patch] = {}
