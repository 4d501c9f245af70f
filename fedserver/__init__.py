"""The gRPC aggregation server."""
