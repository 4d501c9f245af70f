"""Logs the verdicts on a client's updates."""

import logging

from fedcore.protocol import Ack, Verdict
from fedrun.json_lines import concerning

_log = logging.getLogger("fedclient")


def log_verdict(ack: Ack) -> None:
    """Logs the server's verdict on one update."""
    with concerning(seq=ack.seq):  # the next task has begun
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
