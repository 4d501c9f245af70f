"""Many clients at once: their fates one by one, their training in stacks."""

from fedsim.stacked.clients import StackedClients as StackedClients
from fedsim.stacked.engine import stacked_clients as stacked_clients
from fedsim.stacked.engine import stacked_model as stacked_model
from fedsim.stacked.snapshots import Saved as Saved
from fedsim.stacked.snapshots import can_go_on as can_go_on
from fedsim.stacked.snapshots import reopen as reopen
