"""Options and helpers that the command lines of all programs share."""
