"""The edge client."""
