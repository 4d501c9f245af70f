"""The server's side of the protocol, sans I/O: events in, actions out."""

from fedcore.coordinator.crowd import CrowdCoordinator as CrowdCoordinator
from fedcore.coordinator.machine import Coordinator as Coordinator
