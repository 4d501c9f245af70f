"""The journal of a run."""

from fedrun.journal.backup import backup as backup
from fedrun.journal.backup import restore as restore
from fedrun.journal.folder import exists as exists
from fedrun.journal.folder import remove as remove
from fedrun.journal.journal import Journal as Journal
from fedrun.journal.recover import WITHOUT_UPDATES as WITHOUT_UPDATES
from fedrun.journal.recover import Recovered as Recovered
from fedrun.journal.recover import new_coordinator as new_coordinator
from fedrun.journal.recover import recover as recover
from fedrun.journal.repair import repair as repair
from fedrun.journal.store import Configured as Configured
from fedrun.journal.verification import Verified as Verified
from fedrun.journal.verification import verify as verify
from fedrun.journal.versions import public_model as public_model
