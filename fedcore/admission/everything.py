"""Every update is used."""

from typing import ClassVar, Literal

from fedcore.admission.base import Admission, AdmissionConfig


class Everything(AdmissionConfig):
    """Refuses nothing."""

    kind: Literal["everything"] = "everything"
    accepts_all: ClassVar[bool] = True

    def build(self) -> Admission:
        """The rule."""
        return Admission(
            init=lambda: None,
            admit=lambda state, samples, counts: None,
            observe=lambda state, samples, counts: state,
        )
