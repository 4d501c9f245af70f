"""FLeet's controller: refuses updates of few samples or of redundant labels.

Damaskinos et al., "FLeet", Middleware 2020, arXiv 2006.07273, §2.4: thresholds are
percentiles of the batch sizes and label similarities of past tasks. The paper's
text prunes tasks of high similarity, its code those of low similarity; ``side``
chooses. The similarity is that to all labels of tasks that were used, each counted
once. The size of a task is the number of samples that its steps use, where clients
report that (as with the controller ``i_prof``), and otherwise the number of its
client's samples.

As in the paper, a request is refused before it is computed: a client says in its pull
how many samples of which labels it has, and rests for ``ask_again`` seconds if it is
refused. An update whose client said nothing is judged when it arrives, and its client
keeps it where the uplink has a memory. The percentiles are of all tasks, used or
refused: of used ones alone, they rise with each refusal.
"""

import math
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from fedcore.config import Duration
from fedcore.labels import LabelSums, add_labels, similarity
from fedcore.typing import Counts, Seconds
from fedcore.update_filters.base import UpdateFilter, UpdateFilterConfig


class ControllerState(NamedTuple):
    """Rings of past batch sizes and similarities, and all labels seen."""

    sizes_W: npt.NDArray[np.int64]
    similarities_W: npt.NDArray[np.float64]
    seen: int
    labels_C: LabelSums


class FleetController(UpdateFilterConfig):
    """Refuses updates below a percentile of size, or beyond one of label similarity."""

    kind: Literal["fleet_controller"] = "fleet_controller"
    size_percentile: float = Field(default=0.0, ge=0, lt=100)
    """Updates of tasks smaller than this percentile of past ones are refused; 0:
    none."""
    similarity_percentile: float = Field(default=0.0, ge=0, lt=100)
    """The percentage of updates that are refused for their labels; 0: none."""
    side: Literal["low", "high"] = "high"
    """Refuse the least similar labels, or the most similar (redundant) ones."""
    window: int = Field(default=1000, ge=1, le=100_000)
    """The number of past tasks that the percentiles are of."""
    ask_again: Duration = 5.0
    """Seconds that a client rests whose task was refused before it was computed."""

    @property
    def rest(self) -> Seconds | None:
        """The rest of a refused client; None while nothing is refused."""
        is_on = self.size_percentile > 0 or self.similarity_percentile > 0
        return self.ask_again if is_on else None

    @property
    def uses_labels(self) -> bool:
        """Whether the similarity of labels matters."""
        return self.similarity_percentile > 0

    def build(self) -> UpdateFilter:
        """Returns the filter."""
        return UpdateFilter(self._init, self._refusal, self._observe, self._note)

    def _init(self) -> ControllerState:
        empty = np.zeros(self.window)
        return ControllerState(np.zeros(self.window, np.int64), empty, 0, np.zeros(0))

    def _refusal(
        self, state: ControllerState, samples: int, counts_C: Counts | None
    ) -> str | None:
        past = min(state.seen, self.window)
        if not past:
            return None
        if self.size_percentile:
            least = _percentile(state.sizes_W[:past], self.size_percentile)
            if samples < least:
                return f"{samples} samples, fewer than the percentile {least:g}"
        if self.similarity_percentile and counts_C is not None:
            similar = similarity(counts_C, state.labels_C)
            seen = state.similarities_W[:past]
            if self.side == "low":
                bound = _percentile(seen, self.similarity_percentile)
                refused = similar < bound
            else:
                bound = _percentile(seen, 100 - self.similarity_percentile)
                refused = similar > bound
            if refused:
                return f"label similarity {similar:.3f} is beyond the bound {bound:.3f}"
        return None

    def _observe(
        self, state: ControllerState, samples: int, counts_C: Counts | None
    ) -> ControllerState:
        labels_C = add_labels(state.labels_C, counts_C, 1.0)
        return self._note(state, samples, counts_C)._replace(labels_C=labels_C)

    def _note(
        self, state: ControllerState, samples: int, counts_C: Counts | None
    ) -> ControllerState:
        """Takes a task into the percentiles, used or refused."""
        place = state.seen % self.window
        state.sizes_W[place] = samples
        state.similarities_W[place] = similarity(counts_C, state.labels_C)
        return state._replace(seen=state.seen + 1)


def _percentile(past: npt.NDArray[np.generic], percent: float) -> float:
    rank = min(len(past) - 1, math.floor(len(past) * percent / 100))
    return float(np.partition(past, rank)[rank])
