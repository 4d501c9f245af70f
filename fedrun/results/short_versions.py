"""Says that versions hold fewer updates than before, since clients are gone."""

from fedcore.coordinator.records import Stepped

IN_A_ROW = 10  # versions, before it is said


class ShortVersions:
    """Counts versions of fewer updates than ``buffer``, once some were full."""

    def __init__(self) -> None:
        self.buffer = 0
        """The updates that make a version; 0: nothing is said."""
        self._had_full = self._is_told = False
        self._in_a_row = self._count = 0

    def observe(self, version: Stepped) -> None:
        """Counts a version that was made, with the updates that it holds."""
        if version.reason == "buffer":
            self._had_full, self._in_a_row = True, 0
        elif version.reason == "complete" and version.count < self.buffer:
            self._in_a_row += 1
            self._count = version.count

    @property
    def sentence(self) -> str:
        """What to say of the newest versions; empty: they are as they should be."""
        if not self._had_full or self._in_a_row < IN_A_ROW:
            return ""
        updates = "1 update" if self._count == 1 else f"{self._count:,} updates"
        return (
            f"versions hold {updates} of the {self.buffer:,} that algorithm.buffer "
            "asks for, since no more clients are there; algorithm.minimum says how "
            "many a version needs at least"
        )

    def news(self) -> str:
        """Returns the sentence when it is true for the first time; else nothing."""
        if self._is_told or not (sentence := self.sentence):
            return ""
        self._is_told = True
        return sentence
