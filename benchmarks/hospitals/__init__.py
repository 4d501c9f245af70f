"""The drill of eight hospitals, under three rules for making a version.

``python -m benchmarks.hospitals``: VPN drops of minutes, an outage, forced disconnects,
a site that crashes, a site that is always late and is the only one with some classes,
and a server that is killed twice; simulated and with real processes, the same for all
three. ``--save`` writes results/hospitals.json.
"""
