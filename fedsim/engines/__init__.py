"""The ways to move simulated clients: one by one, in stacks, as recorded."""
