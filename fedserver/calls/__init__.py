"""The handling of a call: identify the caller, check its rights, and answer it."""
