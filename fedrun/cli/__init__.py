"""What the command lines of all programs share."""
