"""Predicts the cost and the end of a federation before it runs."""
