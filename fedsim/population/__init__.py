"""Devices: speed, link, availability, misfortune."""

from fedsim.population.population import Population as Population
