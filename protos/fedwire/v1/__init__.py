"""Version 1 of the wire, generated from federation.proto by ``make proto``."""
