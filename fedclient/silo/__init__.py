"""A silo's own workers: processes on one machine that compute one client's gradients.

The client's data are cut into shards, and each worker holds several of them, so the sum
of their gradients is exact even if some workers are late or were killed
(:mod:`fedcore.coding.gradient_coding`). Data are replicated only among the workers of
one client; nothing of this reaches another client.
"""
