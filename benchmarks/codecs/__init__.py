"""What compressing an update costs and saves, in bytes, error and time."""
