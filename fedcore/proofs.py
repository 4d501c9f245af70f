"""Proofs of what a server once was, which only that server can make.

A server whose disk was set back to an older state learns of it from its clients: one
of them knows a later version or verdict. Since a peer's message is a claim, each
version and verdict that leaves the server carries a message authentication code (MAC)
under a secret of the run, and the server believes only claims with their MAC. The MAC
is keyed BLAKE2s (RFC 7693), cut to 64 bits: to guess one takes 2^63 pulls on average,
and the server counts each of them.

The epoch is in every MAC, so a proof of a history that was left proves nothing about
the next one. The client's id is in the MACs of verdicts and tasks, which are of no use
to others.
"""

import hmac
from hashlib import blake2s

from fedcore.protocol import Epoch, Proof, Verdict

SECRET_BYTES = 16
_BYTES = 8


class Authenticator:
    """Makes and checks proofs under a run's secret; without one, all proofs are 0."""

    def __init__(self, secret: bytes | None = None) -> None:
        if secret is not None and len(secret) != SECRET_BYTES:
            raise ValueError(
                f"a run's secret has {SECRET_BYTES} bytes, got {len(secret)}"
            )
        self._secret = secret

    def version(self, epoch: Epoch, version: int) -> Proof:
        """Proves that a version was published."""
        return self._mac(b"version", epoch, version)

    def verdict(
        self, epoch: Epoch, cid: str, seq: int, verdict: Verdict | None
    ) -> Proof:
        """Proves a verdict on a client's message, as told in this epoch."""
        return self._mac(b"verdict", epoch, seq, verdict, cid)

    def task(self, epoch: Epoch, cid: str, version: int, seq: int) -> Proof:
        """Proves that a client was given a task, as a right to one update.

        Args:
            epoch: the history.
            cid: the client.
            version: the one that it trains on.
            seq: its last decided message; once another one is decided on, the proof
                proves nothing more, so it is used once.
        """
        return self._mac(b"task", epoch, version, seq, cid)

    def departure(self, epoch: Epoch) -> Proof:
        """Proves that the server led a client out of this history."""
        return self._mac(b"left", epoch)

    def allows(self, shown: Proof, made: Proof) -> bool:
        """Returns whether a proof is a right; without a secret, nobody needs one."""
        return self._secret is None or self.confirms(shown, made)

    def confirms(self, shown: Proof, made: Proof) -> bool:
        """Compares a proof with the one that this server makes, in constant time."""
        if self._secret is None:
            return False
        return hmac.compare_digest(
            shown.to_bytes(_BYTES, "little"), made.to_bytes(_BYTES, "little")
        )

    def _mac(self, domain: bytes, *facts: object) -> Proof:
        if self._secret is None:
            return 0
        # All but the last part are words without a zero byte in them.
        text = "\0".join(map(str, facts)).encode("utf-8", "surrogatepass")
        mac = blake2s(text, key=self._secret, person=domain, digest_size=_BYTES)
        return int.from_bytes(mac.digest(), "little")
