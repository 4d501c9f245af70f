"""The evaluator: an enrolled process that owns the test set."""

import logging
from typing import Any

from fedclient.wire.connection import Refusal
from fedclient.work.membership import Membership
from fedcore.errors import UnavailableError, WorkloadError
from fedcore.model import FlatModel
from fedcore.participant import OutdatedError, WrongModelError
from fedcore.protocol import Answer, ModelName, Reply
from fedcore.text import format_metrics
from fedcore.training import evaluate_central, text_of_model
from fedcore.user_code import user_code

_log = logging.getLogger("fedclient")


class Evaluator:
    """Evaluates the versions that the server sends."""

    def __init__(self, member: Membership, model: FlatModel, data: Any) -> None:
        self._member, self._model, self._data = member, model, data

    def run(self) -> None:
        """Evaluates until the run has ended."""
        member = self._member
        member.enrol()
        _log.info("evaluating run %s", member.participant.state.run_id)
        while True:
            member.check_superseded()
            try:
                answer = member.pull()
                if isinstance(answer, Refusal):
                    self._heed(answer)
                elif self._evaluate(answer):
                    return
            except UnavailableError as error:
                member.patience.wait(error)
            except OutdatedError as error:
                member.begin_anew(error)
            except WrongModelError as error:
                _log.warning("%s; asking for the full model", error)

    def _heed(self, refusal: Refusal) -> None:
        if refusal.answer is Answer.UNKNOWN:
            self._member.enrol()
        else:
            self._member.wait_for_room(refusal.retry_after)

    def _evaluate(self, reply: Reply) -> bool:
        """Evaluates the model in a reply; returns whether the run has ended."""
        member = self._member
        member.participant.receive(reply)
        member.save()
        member.note_pause(reply.reason)
        state = member.participant.state
        if reply.task is not None:
            assert state.held is not None
            assert state.public_D is not None
            try:
                with user_code("evaluation"):
                    values, samples = evaluate_central(
                        self._model, state.public_D, state.held.version, self._data
                    )
                    text = text_of_model(self._model, state.public_D)
            except WorkloadError as error:
                if reply.done:  # nobody waits for another attempt
                    member.report_failure(error)
                    return True
                member.confess(error)
                return False
            member.failures = 0
            name = ModelName(state.held.epoch, state.held.version)
            member.connection.report(name, values, samples, text)
            _log.info("version %d: %s", name.version, format_metrics(values, samples))
        elif not reply.done:
            member.rest(reply.retry_after)
        return reply.done
