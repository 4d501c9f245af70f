"""A study of the cost of volatile workers, and of the workers to rent."""
