"""The effect of one hostile peer on a loaded server and on its honest clients."""
