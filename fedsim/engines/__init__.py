"""The engines that move simulated clients: one by one, in stacks, or as recorded."""
