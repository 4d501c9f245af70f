"""A client's side of the protocol, sans I/O."""

from fedcore.participant.machine import Participant as Participant
from fedcore.participant.machine import Start as Start
from fedcore.participant.machine import assign as assign
from fedcore.participant.machine import may_use as may_use
from fedcore.participant.machine import start_ahead as start_ahead
from fedcore.participant.message import encode as encode
from fedcore.participant.message import fold as fold
from fedcore.participant.message import is_gone as is_gone
from fedcore.participant.message import start_of as start_of
from fedcore.participant.message import why_unusable as why_unusable
from fedcore.participant.message import work_after as work_after
from fedcore.participant.state import Ledger as Ledger
from fedcore.participant.state import Outcome as Outcome
from fedcore.participant.state import OutdatedError as OutdatedError
from fedcore.participant.state import ParticipantState as ParticipantState
from fedcore.participant.state import Pending as Pending
from fedcore.participant.state import Sent as Sent
from fedcore.participant.state import Trained as Trained
from fedcore.participant.state import WrongModelError as WrongModelError
