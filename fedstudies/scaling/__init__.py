"""What more workers bring: predicted times, and the limit of averaging."""
