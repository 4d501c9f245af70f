"""The work of a client: its membership of a run, training and evaluation."""
