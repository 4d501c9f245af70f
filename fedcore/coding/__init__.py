"""Coded computation: redundant work inside one silo that survives stragglers."""
