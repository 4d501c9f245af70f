"""What a run consists of on disk, shared by all drivers. No torch, no sockets."""
