"""``fedsim coding``: what codes gain for the workers of one silo."""
