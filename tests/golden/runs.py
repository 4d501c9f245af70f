"""What simulated federations came to: saved once, and to stay.

``python -m tests.golden.runs`` saves in ``runs.json`` what they come to on this
machine: only where its arithmetic is new, or for a change that is meant to give other
models, which the changelog then names. What changed is dropped of other arithmetics.
"""

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

from fedcore.coordinator.records import Decided, Stepped
from tests.fedsim.test_stacked import SETTINGS, simulated, torch

FILE = Path(__file__).with_name("runs.json")
ENGINES = ("exact", "stacked")

_CODECS: dict[str, dict[str, Any]] = {
    "cast": {},
    "dead_zone": {},
    "gaia": {"threshold": 0.2},
    "gaussian_k": {"ratio": 0.05},
    "low_rank": {"rank": 1},
    "natural": {},
    "per_tensor": {},
    "qsgd": {"bits": 4, "bucket": 64},
    "random_k": {"ratio": 0.1},
    "rotation": {},
    "semi_discrete": {},
    "sign_l1": {},
    "stc": {"ratio": 0.05},
    "top_k": {"ratio": 0.05},
    "uniform": {"bits": 4},
}
_COMPRESSED: dict[str, dict[str, Any]] = {
    f"codec_{kind}": {
        "algorithm": {
            "kind": "fed_buff",
            "buffer": 3,
            "staleness_limit": 3,
            "uplink": {"kind": "error_feedback", "inner": {"kind": kind, **settings}},
            "downlink": {"kind": kind, **settings},
        },
        "simulate": {"speed": {"kind": "log_normal", "sigma": 1.0}, "dropout": 0.1},
    }
    for kind, settings in _CODECS.items()
}
_MORE: dict[str, dict[str, Any]] = {
    "ada_sgd": {
        "algorithm": {"kind": "fleet", "buffer": 2},
        "simulate": {"speed": {"kind": "log_normal", "sigma": 1.0}},
    },
    "double_compression": {
        "algorithm": {"kind": "double_compression", "buffer": 12},
    },
    "capped_memory": {
        "algorithm": {
            "kind": "fed_buff",
            "buffer": 3,
            "staleness_limit": 1,
            "uplink": {
                "kind": "error_feedback",
                "cap": 0.5,
                "inner": {"kind": "top_k"},
            },
        },
        "simulate": {
            "upload_loss": 0.3,
            "ack_loss": 0.2,
            "speed": {"kind": "log_normal", "sigma": 1.0},
        },
    },
    "server_adam": {
        "algorithm": {"kind": "fed_avg", "buffer": 4, "server": {"kind": "adam"}},
    },
}
FEDERATIONS = {**SETTINGS, **_COMPRESSED, **_MORE}


def came_to(name: str, engine: str) -> str:
    """The digests of all versions and the verdicts on all updates, in one digest."""
    with tempfile.TemporaryDirectory() as folder:
        results = simulated(Path(folder), engine, FEDERATIONS[name])
        told = [record.digest for record in results.of(Stepped)]
        told += [f"{r.cid} {r.seq} {r.verdict.value}" for r in results.of(Decided)]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]


def arithmetic() -> str:
    """A digest of one gradient: other machines may round another way."""
    torch.set_num_threads(1)  # each number of threads adds in its own order
    torch.manual_seed(0)
    layer, x = torch.nn.Linear(64, 10), torch.randn(16, 64)
    torch.nn.functional.cross_entropy(layer(x), torch.arange(16) % 10).backward()
    gradient = layer.weight.grad
    assert gradient is not None
    return hashlib.sha256(gradient.numpy().tobytes()).hexdigest()[:16]


def saved() -> dict[str, dict[str, str]]:
    """What ``runs.json`` holds: of each arithmetic, of each run, its digest."""
    known: dict[str, dict[str, str]] = json.loads(FILE.read_text())
    return known


def save() -> None:
    """Runs all of them and keeps what they came to."""
    known, mine = saved(), arithmetic()
    before = known.get(mine, {})
    runs = {
        f"{name}, {engine}": came_to(name, engine)
        for name in FEDERATIONS
        for engine in ENGINES
    }
    changed = {name for name in before if before[name] != runs.get(name)}
    known = {
        rounding: {name: told for name, told in those.items() if name not in changed}
        for rounding, those in known.items()
    }
    FILE.write_text(json.dumps({**known, mine: runs}, indent=1) + "\n")


if __name__ == "__main__":
    save()
