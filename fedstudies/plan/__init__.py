"""What a federation of volatile workers costs, and which workers to rent."""
