"""Every update is used."""

from typing import Literal

from fedcore.admission.base import Admission, AdmissionConfig


class Everything(AdmissionConfig):
    """Refuses nothing."""

    kind: Literal["everything"] = "everything"

    def build(self) -> Admission:
        """The rule."""
        return Admission(
            init=lambda: None,
            admit=lambda state, samples, counts: None,
            observe=lambda state, samples, counts: state,
        )
