"""All updates are used."""

from typing import Literal

from fedcore.update_filters.base import UpdateFilter, UpdateFilterConfig


class AcceptAll(UpdateFilterConfig):
    """Refuses nothing."""

    kind: Literal["accept_all"] = "accept_all"

    def build(self) -> UpdateFilter:
        """Returns the filter."""
        return UpdateFilter(
            init=lambda: None,
            refusal=None,
            observe=lambda state, samples, counts: state,
        )
