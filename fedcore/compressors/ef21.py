"""EF21: what travels is the change since the last update, and the server adds it up.

Richtárik, Sokolov, Fatkhullin, "EF21: A New, Simpler, Theoretically Better, and
Practically Faster Error Feedback", NeurIPS 2021, arXiv 2106.05203, Algorithm 2:
c_i = C(Δ_i - g_i), g_i ← g_i + c_i; with partial participation, where those who do not
take part send nothing, Fatkhullin, Sokolov, Gorbunov, Li, Richtárik, arXiv 2110.03294,
Algorithm 4. The server's side, g ← g + mean c_i, is the server optimiser of the same
name. Where error feedback sends what it left out, EF21 forgets it: g_i follows the
updates, and a new one replaces what was not sent of the last. The gradient of the paper
is a client's update here.

The memory is e = -g_i, and so the rules of the protocol hold as they are: u = e + Δ,
and with q = C(u) accepted e becomes e - q. A message that was rejected, or undone by a
restored server, gives its q back to e; so does a discarded one, since the server did
not add it. The farewell sends e itself, and g holds nothing of the client afterwards.
Work that never became a message is gone, since g_i stands for it. A client that loses
its disk begins anew, and the server keeps the g_i of its old self.
"""

from typing import Literal

from fedcore.compressors._memory import MemoryConfig
from fedcore.compressors.base import Holds
from fedcore.config import Roles
from fedcore.payloads import Payload, decode
from fedcore.protocol import Verdict
from fedcore.typing import Array


class EF21(MemoryConfig):
    """A memory of what the server holds of this client; needs the server ef21."""

    kind: Literal["ef21"] = "ef21"

    @property
    def holds(self) -> Holds:
        """The memory is -g_i, the sum of what was sent, and no work."""
        return "changes"

    def brings_back(self, verdict: Verdict) -> bool:
        """Returns whether the server left the message out, so that g_i lacks it."""
        return verdict is not Verdict.ACCEPTED

    def fits(self, roles: Roles) -> None:
        """Checks that all updates count alike, so that both sides hold the same g_i.

        Raises:
            ValueError: the server does not add changes up, or weighs them.
        """
        if roles.server.kind != "ef21":
            raise ValueError(
                "uplink: ef21 sends changes, which only the server optimizer ef21 adds "
                f"up; with {roles.server.kind} choose another uplink"
            )
        if roles.staleness.kind != "constant":
            raise ValueError(
                f"uplink: ef21 sends changes, of which none may be dampened by "
                f"staleness {roles.staleness.kind}; take constant"
            )
        if roles.client.companions:
            raise ValueError(
                f"uplink: ef21 sends changes, and those of the control variates of "
                f"client {roles.client.kind} are not added up; take error_feedback"
            )
        aggregator, weigh_by = roles.aggregator.kind, roles.weigh_by
        if aggregator != "weighted_mean" or weigh_by != "updates":
            raise ValueError(
                "uplink: ef21 sends changes, which the server must add up as they are: "
                f"with aggregator {aggregator} and weigh_by {weigh_by} it would not; "
                "take weighted_mean and updates"
            )

    def keep(self, memory_D: Array, corrected_D: Array, sent: Payload) -> Array:
        """Returns E ← e - q, that is g_i ← g_i + q."""
        return memory_D - decode(sent)
