"""The HTTP port of a server: health, readiness and metrics (extra ``web``)."""
