"""Views of a run while it is served: status, terminal, JSON lines, HTTP."""
