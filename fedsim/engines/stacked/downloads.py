"""The smallest downloads that bring clients from an older model to the newest."""

from fedcore.coordinator.state import ServerState
from fedcore.protocol import Held
from fedrun.journal.tally import PATCH_CODES
from fedrun.traffic import codec_of

Download = tuple[int, int, str]  # bytes, kind of patch, codec
_UP_TO_DATE: Download = 0, PATCH_CODES["none"], ""
_WHOLE = -1


class Downloads:
    """The smallest patch from each version to the newest, computed once for all."""

    def __init__(self, state: ServerState) -> None:
        self._state, self._published = state, state.published
        self.step_made()

    def step_made(self) -> None:
        """Notes that there is a newer version."""
        published = self._published
        self.version = published.version
        self._known: dict[int, Download] = {}
        newest = published.ring[-1]
        # Any client may get the whole model instead, or gets that of its group.
        self._has_shorter = self._state.groups is None and (
            newest.message is not None or newest.support is not None
        )

    def of(self, held: int) -> Download:
        """Returns the download for a client that holds this version."""
        if held == self.version:
            return _UP_TO_DATE
        way = held if self._has_shorter else _WHOLE
        return self._known.get(way) or self._find(way)

    def _find(self, held: int) -> Download:
        published = self._published
        name = None
        place = held - published.ring[0].version
        if place >= 0 or held == 0:
            digest = published.ring[place].digest if held else published.origin
            name = Held(published.epoch, held, digest)
        patch = published.patch(name)
        codec = codec_of(patch.parts[0]) if patch.parts else ""
        found = patch.nbytes, PATCH_CODES[patch.kind], codec
        self._known[held] = found
        return found
