"""The attacks, each with the federation that it attacks."""

from dataclasses import dataclass, field
from typing import Any

from fedcore.typing import Seconds

ENDLESS = 10**9


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One attack, and the federation that it is made on."""

    attack: str
    title: str
    dim: int = 10_000
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    descriptors: int = 0  # the server may have no more; 0: as many as the system grants
    delay: float = 0.0  # seconds that each flush of the server's disk takes more
    unnamed: bool = False  # the honest clients have no names
    seconds: Seconds = 4.0  # that a window takes
    pace: float = 0.02  # seconds of an honest client's task

    def config(self) -> dict[str, Any]:
        """The server's config."""
        given: dict[str, Any] = {
            "model": "model.safetensors",
            "server": {"listen": "127.0.0.1:0", "journal": "run"},
            "algorithm": {
                "kind": "fed_buff",
                "buffer": 8,
                "staleness_limit": ENDLESS,
                "uplink": {"kind": "identity"},
            },
        }
        for section, fields in self.settings.items():
            given[section] = {**given.get(section, {}), **fields}
        return given


TOP_K: dict[str, Any] = {
    "kind": "error_feedback",
    "inner": {"kind": "top_k", "ratio": 0.001},
}
SCENARIOS: dict[str, Scenario] = {
    each.attack: each
    for each in (
        Scenario(attack="cancelled", title="Enrol, Report and Leave calls cancelled"),
        Scenario(attack="later_state", title="claims of a later state"),
        Scenario(attack="names", title="enrolling under the names of others"),
        Scenario(
            attack="impostor",
            title="Leave and seq 2^64 - 1 for others",
            unnamed=True,
        ),
        Scenario(
            attack="appointed",
            title="an evaluator that nobody appointed reports accuracy 1",
            settings={
                "stop": {"target": {"accuracy": 0.99}},
                "timeouts": {"linger": 2.0},
            },
        ),
        Scenario(
            attack="unread",
            title="3,000 unread pulls on one connection",
            dim=125_000,
            pace=0.1,
        ),
        Scenario(
            attack="pushes",
            title="300 pushes of 1 MB behind a slow disk",
            dim=250_000,
            settings={"server": {"max_uploads": 4}},
            delay=0.1,
            pace=0.2,
            seconds=6.0,
        ),
        Scenario(
            attack="trickle",
            title="64 uploads that resend one byte a second",
            dim=125_000,
            pace=0.1,
        ),
        Scenario(
            attack="silent",
            title="400 silent connections, 512 descriptors",
            dim=125_000,
            settings={"journal": {"snapshot_records": 50}},
            descriptors=512,
            pace=0.1,
        ),
        Scenario(
            attack="half_closed", title="1,000 half-closed connections", seconds=15.0
        ),
        Scenario(
            attack="dear",
            title="the dearest small messages, 300,000 values",
            dim=300_000,
            settings={"algorithm": {"uplink": TOP_K, "downlink": TOP_K["inner"]}},
            pace=0.1,
        ),
        Scenario(attack="keys", title="20,000 metrics to a report"),
        Scenario(attack="control", title="control characters in every text"),
        Scenario(attack="enrolments", title="a flood of enrolments"),
        Scenario(
            attack="crowd_of_pulls",
            title="200 clients of one peer, each with an unread pull",
            dim=125_000,
            pace=0.1,
        ),
        Scenario(
            attack="crowd_of_uploads",
            title="64 clients of one peer that resend one byte a second",
            dim=125_000,
            pace=0.1,
        ),
    )
}

# All that wants no poor machine, on one federation.
TOGETHER = Scenario(
    attack="",
    title="many attacks on one federation",
    dim=20_000,
    settings={
        "stop": {"target": {"accuracy": 0.99}},
        "timeouts": {"linger": 2.0},
        "journal": {"snapshot_records": 50},
    },
    descriptors=512,
)
