"""``fedsim compare``: runs side by side, and whether they differ by chance."""
