"""Experiments that measure what this project claims."""
