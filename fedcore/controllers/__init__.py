"""Controllers. Each method is one file; importing it here registers it."""

from fedcore.controllers._assignment import USUAL as USUAL
from fedcore.controllers._assignment import Assignment as Assignment
from fedcore.controllers._assignment import join as join
from fedcore.controllers._server import Request as Request
from fedcore.controllers._server import ServerController as ServerController
from fedcore.controllers._server import compose_at_server as compose_at_server
from fedcore.controllers.ada_comm import AdaComm as AdaComm
from fedcore.controllers.bandwidth import Bandwidth as Bandwidth
from fedcore.controllers.base import NOTHING as NOTHING
from fedcore.controllers.base import AnyController as AnyController
from fedcore.controllers.base import Controller as Controller
from fedcore.controllers.base import ControllerConfig as ControllerConfig
from fedcore.controllers.base import Report as Report
from fedcore.controllers.base import Wanted as Wanted
from fedcore.controllers.base import compose as compose
from fedcore.controllers.gaia import Gaia as Gaia
from fedcore.controllers.i_prof import IProf as IProf
from fedcore.controllers.skew_scout import SkewScout as SkewScout
from fedcore.measured import TaskReport as TaskReport
