"""A client's connection to its server, and the measured phases of its transfers."""
