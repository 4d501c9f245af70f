"""The gain of more workers: predicted times, and the limit of averaging."""
