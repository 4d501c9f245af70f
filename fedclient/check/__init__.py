"""Checks, before a client joins, everything that joining needs; leaves no trace."""
