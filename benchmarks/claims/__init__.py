"""The claims of papers and of this project, as experiments: one file a claim.

``python -m benchmarks.claims`` runs all and exits with 1 if one fails; ``python -m
benchmarks.claims 5`` runs one. The results are in docs/papers.md.
"""
