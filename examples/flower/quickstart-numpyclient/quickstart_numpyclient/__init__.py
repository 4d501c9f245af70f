"""quickstart-numpyclient: a Flower app of the older kind, in plain NumPy."""
