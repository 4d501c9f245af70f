"""Small whole numbers in few bytes: seven bits a byte, as in Protocol Buffers.

The lowest bits come first, and the highest bit of a byte says that another follows. A
number takes at most five bytes, since none here exceeds 2^32 - 1.
"""

from collections.abc import Iterable

from fedcore.errors import PayloadError
from fedcore.payloads.base import Reader

_BITS, _MOST = 7, (1 << 32) - 1
_MORE = 1 << _BITS


def pack_varints(numbers: Iterable[int]) -> bytes:
    """Returns the numbers, one after the other."""
    packed = bytearray()
    for number in numbers:
        while number >= _MORE:
            packed.append(number % _MORE | _MORE)
            number >>= _BITS
        packed.append(number)
    return bytes(packed)


def unpack_varints(reader: Reader, count: int) -> list[int]:
    """Returns the next ``count`` numbers.

    Raises:
        PayloadError: the message ends within one, or one exceeds 2^32 - 1.
    """
    return [_unpack_varint(reader) for _ in range(count)]


def _unpack_varint(reader: Reader) -> int:
    number = 0
    for shift in range(0, 35, _BITS):
        byte = reader.bytes(1)[0]
        number |= (byte % _MORE) << shift
        if byte < _MORE:
            break
    else:
        raise PayloadError("a number of more than five bytes")
    if number > _MOST:
        raise PayloadError(f"a number above {_MOST}")
    return number
