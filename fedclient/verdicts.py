"""Logs what became of a client's updates."""

import logging

from fedcore.protocol import Ack, Verdict

_log = logging.getLogger("fedclient")


def log_verdict(ack: Ack) -> None:
    """Logs the server's verdict on one update."""
    if ack.answer is Verdict.ACCEPTED:
        _log.info(
            "update %d accepted at version %d, weight %.3g%s",
            ack.seq,
            ack.version,
            ack.weight,
            ack.reason and f"; it {ack.reason}",
        )
    else:
        _log.info("update %d: %s (%s)", ack.seq, ack.answer.value, ack.reason)
