"""``fedsim fidelity``: a real federation against its simulation."""
