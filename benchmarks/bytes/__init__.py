"""Accuracy against bytes, counted at the sockets of a real federation.

``python -m benchmarks.bytes``: a server process, client processes whose every client
has a connection and a state directory of its own, and between them a proxy that
counts what passes and belongs to neither. ``--save`` writes results/bytes.json.
"""
