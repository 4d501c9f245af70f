"""Which machine an address names."""

import ipaddress
from ipaddress import IPv4Address, IPv6Address

_BASES = {"0x": 16, "0": 8, "": 10}  # of a number, by how it begins


def is_loopback(host: str) -> bool:
    """Returns whether nobody but this machine answers to a name or address."""
    if host.lower().removesuffix(".") == "localhost":
        return True
    address = _address(host)
    return address is not None and address.is_loopback


def is_this_machine(host: str) -> bool:
    """Returns whether a connection to a name or address ends at this machine.

    Besides what is loopback, that is any address (``0.0.0.0``, ``::``), to which a
    server listens on all networks, and what RFC 6761 says of names below ``localhost``.
    """
    if is_loopback(host) or host.lower().removesuffix(".").endswith(".localhost"):
        return True
    address = _address(host)
    return address is not None and address.is_unspecified


def _address(host: str) -> IPv4Address | IPv6Address | None:
    """Returns the address that a text spells, as a resolver reads it; None: a name."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:  # a name, whatever it begins with, or a short form
        return _short_form(host.removesuffix("."))
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _short_form(host: str) -> IPv4Address | None:
    """Reads an address as ``inet_aton`` does: ``127.1``, ``0x7f.1``, ``2130706433``.

    The last of up to four numbers fills the bytes that the others leave.
    """
    parts = host.lower().split(".")
    try:
        *first, last = map(_number, parts)
    except ValueError:
        return None
    left = 4 - len(first)
    if left < 1 or last >= 256**left or any(number > 255 for number in first):
        return None
    high = int.from_bytes(bytes(first).ljust(4, b"\0"), "big")
    return IPv4Address(high + last)


def _number(text: str) -> int:
    """Reads a number as C writes it.

    Raises:
        ValueError: it is none.
    """
    if not (text.isascii() and text.isalnum()) or len(text) > 16:
        raise ValueError(text)
    start = next(start for start in _BASES if text.startswith(start))
    digits = text if text == "0" else text.removeprefix(start)
    return int(digits, _BASES[start])
