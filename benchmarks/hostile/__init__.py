"""What one hostile peer does to a loaded server, and to the honest clients on it."""
