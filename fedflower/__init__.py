"""Flower: its apps as workloads, our recipes as its strategy, and a mod of our own."""
