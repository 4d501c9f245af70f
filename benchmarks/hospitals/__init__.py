"""The drill of eight hospitals, under three rules of when a version is made.

``python -m benchmarks.hospitals``: VPN drops of minutes, an outage, forced disconnects,
a site that crashes, one that is always late and alone has some classes, and a server
that is killed twice; simulated and with real processes, the same for all three.
``--save`` writes results/hospitals.json.
"""
