"""A silo's own workers: processes on one machine that compute one client's gradients.

The client's data are cut into shards, of which each worker holds several. So the sum of
their gradients is exact while some workers are late, or were killed
(:mod:`fedcore.coding.gradient_coding`). This replicates data among the workers of one
client; nothing of it reaches another client.
"""
