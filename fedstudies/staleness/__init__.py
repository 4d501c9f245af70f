"""``fedsim staleness``: how many times longer training takes with late updates."""
