"""Who speaks: a client shows its key, and its id follows from it.

Ids may be shown to anybody, since nobody finds a key that belongs to one. The server
keeps ids alone.
"""

import hashlib
import secrets

from fedcore.errors import ProtocolError

KEY_BYTES = 16
_CLIENT, _OWNER = b"latecomer cid", b"latecomer owner"
_DIGITS = 32  # hexadecimal, of an id: 128 bits, as many as the key has


def fresh_key() -> bytes:
    """A new key, of a client or of an owner of names."""
    return secrets.token_bytes(KEY_BYTES)


def cid_of(key: bytes) -> str:
    """The id of the client that has this key.

    Raises:
        ProtocolError: it is no key.
    """
    return _named(_CLIENT, key, "a client's key")


def owner_of(key: bytes) -> str:
    """The id of the owner of names that has this key.

    Raises:
        ProtocolError: it is no key.
    """
    return _named(_OWNER, key, "an owner's key")


def _named(purpose: bytes, key: bytes, what: str) -> str:
    if len(key) != KEY_BYTES:
        raise ProtocolError(f"{what} has {KEY_BYTES} bytes, got {len(key)}")
    return hashlib.sha256(purpose + key).hexdigest()[:_DIGITS]
