"""Speed, as ratios to physical floors and to peers on the same machine."""
