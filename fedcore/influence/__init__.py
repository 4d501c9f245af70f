"""How much each client moved the model."""
