"""Many clients in one process, under a virtual clock."""

from fedsim.api import run as run
