"""A client's state on disk."""
