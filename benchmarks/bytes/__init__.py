"""Accuracy against bytes, counted at the sockets of a real federation.

``python -m benchmarks.bytes``: a server process, client processes in which each client
has its own connection and state directory, and between them an independent proxy that
counts the bytes that pass. ``--save`` writes results/bytes.json.
"""
