"""What pages quote, and the saved results in which it must stand."""
