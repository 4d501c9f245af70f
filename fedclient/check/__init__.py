"""Checks, before a client joins, all that joining needs; leaves nothing behind."""
