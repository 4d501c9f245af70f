"""Which machine an address names."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine answers to a name or address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, whatever it begins with
        return False
