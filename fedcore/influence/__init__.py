"""Measures how much each client moved the model."""
