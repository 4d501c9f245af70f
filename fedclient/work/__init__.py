"""A client at work: its membership of a run, training and evaluation."""
