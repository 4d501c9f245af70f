"""Real federations of processes, compared with their simulations."""
