"""Real federations of processes against their simulations."""
