"""The wire: protocol buffers, their conversion, and a fast path for large bytes."""
