"""What a federation will cost and when it will be done, computed before it runs."""
