"""The server's side of the protocol, sans I/O: events in, actions out.

``Rounds`` decides who trains, what counts and when a version is made; ``Coordinator``
is the protocol around it, for clients that can be lost.
"""

from fedcore.coordinator.machine import Coordinator as Coordinator
from fedcore.coordinator.rounds import Rounds as Rounds
