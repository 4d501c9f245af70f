"""All updates are used."""

from typing import ClassVar, Literal

from fedcore.update_filters.base import UpdateFilter, UpdateFilterConfig


class AcceptAll(UpdateFilterConfig):
    """Refuses nothing."""

    kind: Literal["accept_all"] = "accept_all"
    accepts_all: ClassVar[bool] = True

    def build(self) -> UpdateFilter:
        """Returns the filter."""
        return UpdateFilter(
            init=lambda: None,
            refusal=lambda state, samples, counts: None,
            observe=lambda state, samples, counts: state,
        )
