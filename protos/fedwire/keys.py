"""Keys and ids: a client shows its key, and the server computes its id from the key.

Ids may be public, since nobody can find the key of an id. The server keeps only ids.
"""

import hashlib
import secrets

from fedcore.errors import ProtocolError

KEY_BYTES = 16
_CLIENT, _OWNER = b"latecomer cid", b"latecomer owner"
_DIGITS = 32  # hexadecimal digits of an id: 128 bits, as many as the key has


def fresh_key() -> bytes:
    """Returns a new random key, for a client or for an owner of names."""
    return secrets.token_bytes(KEY_BYTES)


def cid_of(key: bytes) -> str:
    """Returns the id of the client that has this key.

    Raises:
        ProtocolError: ``key`` has another length than keys have.
    """
    return _name(_CLIENT, key, "a client's key")


def owner_of(key: bytes) -> str:
    """Returns the id of the owner of names that has this key.

    Raises:
        ProtocolError: ``key`` has another length than keys have.
    """
    return _name(_OWNER, key, "an owner's key")


def _name(purpose: bytes, key: bytes, what: str) -> str:
    if len(key) != KEY_BYTES:
        raise ProtocolError(f"{what} has {KEY_BYTES} bytes, got {len(key)}")
    return hashlib.sha256(purpose + key).hexdigest()[:_DIGITS]
