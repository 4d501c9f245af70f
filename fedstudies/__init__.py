"""Many simulations: sweeps over settings, comparisons of codecs and of runs."""
