"""Devices: speed, link, availability, misfortune."""

from fedsim.population.device import Device as Device
from fedsim.population.device import devices_of as devices_of
from fedsim.population.population import Population as Population
