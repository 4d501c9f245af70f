"""Federations over bad links: time to an accuracy, and bytes, of real processes.

``python -m benchmarks.netlab --netlab TOOL``: a server and six clients, each in a
network namespace of its own behind a link that is slow, delayed, lossy and sometimes
cut, and one client whose address changes. ``--save`` writes results/netlab.json.
"""
