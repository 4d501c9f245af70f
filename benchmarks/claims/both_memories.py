"""Claim 2: compression in both directions needs an error memory on both sides.

Tang, Lian, Yu, Zhang, Liu, "DoubleSqueeze", ICML 2019, arXiv 1905.05957; Gao, Xu,
Huang, AAAI 2021, doi 10.1609/aaai.v35i9.16920. Here the server's memory is the gap
W - X of two models, so that it holds under partial participation as well.

dirichlet(50, .3), 10 clients a round, 5 local steps, B 16, lr .1, 300 rounds.
"""

from benchmarks.claims.report import (
    Cell,
    Check,
    Report,
    Scale,
    Table,
    at_least,
    at_most,
)
from benchmarks.claims.setup import Federation, Quality, digits, in_rounds
from fedcore.compressors import (
    CompressorConfig,
    ErrorFeedback,
    Identity,
    SignL1,
    TopK,
)
from fedcore.coordinator import Coordinator
from fedcore.coordinator.actions import Action
from fedcore.coordinator.records import StepReason
from fedcore.partitions import dirichlet

CLIENTS, COHORT = 50, 10
PAIRS: dict[str, tuple[CompressorConfig, CompressorConfig]] = {
    "top-1 % up, sign down": (TopK(ratio=0.01), SignL1()),
    "sign up, top-5 % down": (SignL1(), TopK(ratio=0.05)),
}
BEFORE = {
    "top-1 % up, sign down": (".713", ".890", ".960"),
    "sign up, top-5 % down": (".833", ".902", ".965"),
}
MEMORIES = ("no memory", "uplink memory only", "both memories")


class Forgetful(Coordinator):
    """The wrong variant: what a downlink message leaves out is forgotten, X = W."""

    def _step(self, reason: StepReason) -> list[Action]:
        actions = super()._step(reason)
        self.state.exact_D = self.state.published.public_D
        return actions


def run(scale: Scale) -> Report:
    """Two pairs of compressors, each with no memory, the uplink's alone, and both."""
    rounds = scale.of(300, 12)

    def measure(
        uplink: CompressorConfig,
        downlink: CompressorConfig,
        server: type[Coordinator],
        before: str,
    ) -> tuple[Cell, Cell]:
        found = [train(uplink, downlink, server, rounds, seed) for seed in scale.seeds]
        accuracy = Cell([quality.accuracy for quality in found], before)
        return accuracy, Cell([quality.loss for quality in found])

    plain = measure(Identity(), Identity(), Coordinator, ".970")
    rows, checks = {"uncompressed": plain}, list[Check]()
    for pair, (uplink, downlink) in PAIRS.items():
        remembered = ErrorFeedback(inner=uplink)
        none, half, both = (
            measure(up, downlink, server, before)
            for (up, server), before in zip(
                [
                    (uplink, Forgetful),
                    (remembered, Forgetful),
                    (remembered, Coordinator),
                ],
                BEFORE[pair],
                strict=True,
            )
        )
        for memory, cells in zip(MEMORIES, (none, half, both), strict=True):
            rows[f"{pair}: {memory}"] = cells
        lost = plain[0].mean - both[0].mean
        gained = both[0].mean - none[0].mean
        checks += [
            at_most(f"{pair}: uncompressed - both", lost, 0.015),
            at_least(f"{pair}: both - none", gained, 0.04),
        ]
    return Report(
        number=2,
        title="Compression in both directions needs both memories",
        source="DoubleSqueeze, ICML 2019; Gao et al., AAAI 2021",
        tables=[Table(f"After {rounds} rounds", ("accuracy", "loss"), rows)],
        checks=checks,
    )


def train(
    uplink: CompressorConfig,
    downlink: CompressorConfig,
    server: type[Coordinator],
    rounds: int,
    seed: int,
) -> Quality:
    """The public model after so many rounds."""
    parts = dirichlet(digits("train")[1], clients=CLIENTS, alpha=0.3, seed=seed)
    config = in_rounds(COHORT, uplink, downlink)
    federation = Federation(config, parts, seed, coordinator=server)
    for _ in range(rounds):
        federation.round()
    return federation.quality()
