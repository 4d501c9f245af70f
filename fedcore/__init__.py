"""The pure core of latecomer: arrays and events in, arrays and actions out."""

COMPUTING = (
    "fedcore", "fedflower", "fedrun", "fedsim", "fedstudies", "fedtorch", "fedview",
)  # fmt: skip
"""The packages on which the result of a simulation depends."""
PACKAGES = (*COMPUTING, "fedclient", "fedserver", "fedwire", "latecomer")
"""All packages of this program."""
