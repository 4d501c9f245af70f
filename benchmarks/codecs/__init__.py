"""The cost and the savings of compressing an update, in bytes, error and time."""
