"""The device that a client runs on: its facts, conditions and pace."""
