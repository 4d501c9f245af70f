"""Flower apps as workloads: their folders, their records and their first message."""
