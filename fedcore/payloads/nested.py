"""A message inside a message: what ``block`` and ``rotated`` have in common."""

import numpy as np

from fedcore.errors import PayloadError
from fedcore.payloads.base import (
    Format,
    Layout,
    Payload,
    Reader,
    for_rows,
    unpack_plain,
)
from fedcore.typing import Array, Bytes

Arrays = dict[str, Array]


class Inside:
    """The formats that may be inside a message.

    The arrays of the outer message are its own, those of the inner one, and ``inner``,
    which holds the inner format's code.
    """

    def __init__(self, where: str, *forms: Format) -> None:
        """``where`` completes the sentence "format 7 cannot be ..."."""
        self._where = where
        self._forms = {form.code: form for form in forms}
        self.names = {form.name for form in forms}

    def put(self, name: str, dim: int, own: Arrays, inner: Payload) -> Payload:
        """Returns a message of format ``name``: the arrays ``own`` around ``inner``."""
        (code,) = (c for c, form in self._forms.items() if form.name == inner.format)
        first = next(iter(inner.arrays.values()))
        about = for_rows(first.shape[:-1], {"inner": np.array([code], np.uint8)})
        arrays = {**own, **about, **inner.arrays}
        return Payload(name, dim, arrays, inner.deflates)

    def take(self, payload: Payload, own: str, dim: int) -> Payload:
        """Returns the message inside; ``own`` names the array of the outer one."""
        code = int(np.asarray(payload.arrays["inner"]).reshape(-1)[0])
        arrays = dict(payload.arrays)
        del arrays["inner"], arrays[own]
        return Payload(self._forms[code].name, dim, arrays)

    def check(self, body: Bytes) -> None:
        """Checks the format in the header of the message inside.

        Raises:
            PayloadError: it is none of those that may be there.
        """
        if len(body) > 1 and body[1] not in self._forms:
            known = ", ".join(f"{code} {f.name}" for code, f in self._forms.items())
            raise PayloadError(
                f"format {body[1]} cannot be {self._where}; these can: {known}"
            )

    def unpack(self, body: Bytes, layout: Layout, reader: Reader) -> Arrays:
        """Returns the arrays of a checked message inside, and ``inner``.

        Raises:
            PayloadError: the bytes are no such message.
        """
        arrays = unpack_plain(body, layout, reader.declared).arrays
        return {"inner": np.array([body[1]], np.uint8), **arrays}
