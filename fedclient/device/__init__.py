"""The device that a client runs on: when it may train, and at what pace."""
