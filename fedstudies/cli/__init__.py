"""The commands of the studies."""
