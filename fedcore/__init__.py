"""The pure core of latecomer: arrays and events in, arrays and actions out."""
