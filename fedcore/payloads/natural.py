"""Powers of two and zeros: ``i16 low, u8 p, signs, p planes``.

==== ======== ====================================================
at   size     content
==== ======== ====================================================
0    2        low, the exponent of the smallest magnitude, as i16
2    1        p, planes of the codes: 0 to 9
3    ⌈D/8⌉    signs, the lowest bit of a byte first; set for minus
…    p⌈D/8⌉   planes of the codes; plane i holds bit i of all codes
==== ======== ====================================================

Code 0 is zero, code c stands for 2^(low + c - 1), and low is at least -149, the
smallest subnormal; no magnitude is above 2^127. A sender takes the fewest planes.
Magnitudes that span a factor of 2^30 take 5 of them, so a value takes 6 bits and at
most 10. A message of zeros has low 0 and no planes.
"""

import struct

import numpy as np
import numpy.typing as npt

from fedcore.arrays import as_numpy, pieces
from fedcore.errors import PayloadError
from fedcore.payloads.base import Format, Layout, Payload, Reader, register
from fedcore.typing import Array, Bytes, Vector

_LOWEST, _HIGHEST = -149, 127
_CHUNK = 1 << 10  # bytes of each plane that are read at once

Codes = npt.NDArray[np.uint16]


def natural_payload(values_D: Array) -> Payload:
    """Returns a message of values that are plus or minus powers of two, or zeros."""
    return Payload("natural", values_D.shape[-1], {"values": values_D})


def _pack(payload: Payload) -> list[Bytes]:
    values_D = np.asarray(as_numpy(payload.arrays["values"]), np.float32, order="C")
    ranks_D = np.empty(len(values_D), np.uint16)
    least, most = _HIGHEST - _LOWEST + 2, 0
    for part in pieces(values_D):
        ranks = _ranks(values_D[part], out=ranks_D[part])
        least = min(least, int(ranks.min(where=ranks > 0, initial=least)))
        most = max(most, int(ranks.max()))
    if not most:
        least = 1 - _LOWEST  # only zeros: low is 0
    count = max(0, most - least + 1).bit_length()
    planes = np.empty((1 + count, (len(values_D) + 7) // 8), np.uint8)
    for part in pieces(values_D, unit=8):
        row = planes[:, part.start // 8 : (part.stop + 7) // 8]
        row[0] = np.packbits(np.signbit(values_D[part]), bitorder="little")
        # Zeros have rank 0, and must not fall below.
        codes = np.maximum(ranks_D[part], np.uint16(least - 1)) - np.uint16(least - 1)
        for place in range(count):
            bits = (codes & np.uint16(1 << place)) != 0
            row[1 + place] = np.packbits(bits, bitorder="little")
    head = struct.pack("<hB", least - 1 + _LOWEST, count)
    return [head, *(plane.data for plane in planes)]


def _ranks(values: Vector, out: Codes) -> Codes:
    """Returns 0 of a zero, and 1 + e - lowest of 2^e."""
    exponents = (values.view(np.uint32) >> np.uint32(23)).astype(np.uint8)  # no sign
    np.add(exponents, np.uint16(23), out=out)
    if not exponents.all():
        subnormal = exponents == 0
        _, lengths = np.frexp(values[subnormal])  # 2^e is ½ · 2^(e+1)
        out[subnormal] = np.where(values[subnormal] == 0, 0, lengths - _LOWEST)
    return out


def _unpack(reader: Reader, layout: Layout) -> dict[str, Array]:
    dim, low, count = sum(layout), reader.number("h"), reader.number("B")
    reader.spend(dim)
    if not (_LOWEST <= low <= _HIGHEST and count <= 9):
        raise PayloadError(f"no powers of two from 2^{low} in {count} planes")
    width = (dim + 7) // 8
    planes = reader.array("u1", (1 + count) * width).reshape(1 + count, width)
    known = min(1 << count, _HIGHEST - low + 2)
    powers = np.ldexp(np.float32(1), np.arange(low - 1, low - 1 + known))
    powers[0] = 0
    either = np.concatenate([powers, -powers])
    values_D = np.empty(dim, np.float32)
    for at in range(0, width, _CHUNK):
        values = values_D[8 * at : 8 * (at + _CHUNK)]
        signs, *bits = np.unpackbits(
            planes[:, at : at + _CHUNK], axis=1, count=len(values), bitorder="little"
        )
        codes = np.zeros(len(values), np.uint16)
        for place in range(count):
            codes |= bits[place] * np.uint16(1 << place)
        if int(codes.max()) >= known:
            raise PayloadError(f"code {int(codes.max())} is above {known - 1}")
        values[:] = either[codes + signs * np.uint16(known)]
    return {"values": values_D}


NATURAL = register(Format("natural", 8, _pack, _unpack))
