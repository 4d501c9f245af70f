"""An operator's commands: acts on a run, its journal, replays."""
