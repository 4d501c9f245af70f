"""A byte-level GPT-2 with LoRA, federated over the packages of Python's own library."""
