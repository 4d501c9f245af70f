"""The compared federations: the unchanged recipe, and others."""

from pathlib import Path
from typing import Any

from benchmarks.netlab.links import CLIENTS
from fedcore.typing import Seconds

APP = Path(__file__).with_name("app.py")
TARGET = 0.95  # of the test images
PACE: Seconds = 4.0  # a task's steps take at least as long on each device
CLIENT = {"kind": "local_sgd", "lr": 0.2, "steps": 20, "batch": 16}
DENSE = {"kind": "identity"}
OURS, UNCOMPRESSED = "latecomer", "uncompressed, synchronous"
WAYS: dict[str, dict[str, Any]] = {
    OURS: {"kind": "latecomer"},
    UNCOMPRESSED: {"kind": "fed_avg", "buffer": CLIENTS},
    "uncompressed, synchronous, rate .4": {
        "kind": "fed_avg",
        "buffer": CLIENTS,
        "client": {**CLIENT, "lr": 0.4},
    },
    "uncompressed, four of six": {
        "kind": "fed_avg",
        "buffer": 4,
        "over_selection": CLIENTS / 4,
    },
    "uncompressed, asynchronous": {
        "kind": "latecomer",
        "uplink": DENSE,
        "downlink": DENSE,
    },
    "latecomer's codecs, synchronous": {
        "kind": "latecomer",
        "synchronous": True,
        "staleness_limit": 0,
        "deadline": 600.0,
        "buffer": CLIENTS,
    },
    "latecomer without error memory": {
        "kind": "latecomer",
        "uplink": {"kind": "dead_zone", "ratio": 0.05},
    },
}
# A client whose link is cut for a minute, and that connects anew, is not lost.
TIMEOUTS = {"heartbeat": 5.0, "lost": 90.0, "linger": 300.0}


def config(
    way: str, seed: int, address: str, stop: dict[str, Any], every: int = 1
) -> dict[str, Any]:
    """The federation's YAML.

    Args:
        way: one of ``WAYS``.
        seed: of the run and of who has which images.
        address: where the server listens.
        stop: when the run ends.
        every: versions from one evaluation to the next.
    """
    return {
        "app": f"{APP}:workload",
        "model": "model.safetensors",
        "seed": seed,
        "server": {"listen": address, "plaintext": True, "journal": "run"},
        "algorithm": {"client": CLIENT, "min_clients": CLIENTS, **WAYS[way]},
        "evaluate": {"every_versions": every},
        "stop": stop,
        "timeouts": TIMEOUTS,
    }
