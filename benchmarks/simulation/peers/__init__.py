"""The same federation, as the users of other libraries would write it.

These programs run in the environment of their library, where ours is not installed:
they import nothing of this project but ``peers.problem``, which needs NumPy alone.
"""
