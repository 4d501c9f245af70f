"""Views of a run: its results as tables, its report, replays of it, and callbacks."""
