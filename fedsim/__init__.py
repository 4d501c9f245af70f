"""A simulator: many clients in one process, under a virtual clock.

People write ``latecomer.run``.
"""
