"""An audit of how much each client influenced the model."""
