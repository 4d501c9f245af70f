"""A simulator: many clients in one process, under a virtual clock.

Users call it as ``latecomer.run``.
"""
