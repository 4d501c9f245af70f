"""``fedsim sweep``: many settings, several seeds each, in one table."""
