"""Claim 2: compression in both directions needs an error memory on both sides.

Tang, Lian, Yu, Zhang, Liu, "DoubleSqueeze", ICML 2019, arXiv 1905.05957; Gao, Xu,
Huang, AAAI 2021, doi 10.1609/aaai.v35i9.16920. Here the server's memory is the gap
W - X of two models, so that it holds under partial participation as well.

dirichlet(50, .3), 10 clients a round, 5 local steps, B 16, lr .1, 300 rounds: two mixed
pairs of compressors, and every registered contraction in both directions. The numbers
show which codecs need their memories.
"""

from typing import NamedTuple

from benchmarks.claims.every_codec import Codec, every_codec
from benchmarks.claims.report import (
    Cell,
    Check,
    Report,
    Scale,
    Table,
    at_least,
    at_most,
    average,
    difference,
)
from benchmarks.claims.setup import Federation, digits, in_rounds
from fedcore import server_optimizers
from fedcore.compressors import (
    EF21,
    CompressorConfig,
    ErrorFeedback,
    Identity,
    SignL1,
    TopK,
)
from fedcore.coordinator import Coordinator
from fedcore.coordinator.actions import Action
from fedcore.coordinator.events import Event
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


NEEDED, SPARED = 0.04, 0.015  # accuracy: what a memory must gain, what may be lost
FOLLOWED = {  # another memory, of what the server holds of each client
    "top_k 5 %, 5 %, ef21": Codec(TopK(ratio=0.05), TopK(ratio=0.05), EF21),
}
KNOWN = {  # which codecs are known to lose more, and why
    "cyclic": "a tenth of the values a message, and a client is one in five",
}


class Outcome(NamedTuple):
    """The metrics of a run's last model, and its traffic."""

    accuracy: float
    loss: float
    kilobytes: float  # up and down, of one client in one round


class Forgetful(Coordinator):
    """The wrong variant: what a downlink message leaves out is forgotten, X = W."""

    def handle(self, event: Event) -> list[Action]:
        """Handles an event, and forgets W - X after a new version."""
        version, actions = self.state.version, super().handle(event)
        if self.state.version != version:
            self.state.exact_D = self.state.published.public_D
        return actions


def run(scale: Scale) -> Report:
    """Two pairs of compressors, and every codec, with and without memories."""
    rounds = scale.of(300, 12)

    def measure(
        uplink: CompressorConfig,
        downlink: CompressorConfig,
        server: type[Coordinator],
        before: str,
    ) -> tuple[Cell, Cell]:
        found = [train(uplink, downlink, server, rounds, seed) for seed in scale.seeds]
        accuracy = Cell([outcome.accuracy for outcome in found], before)
        return accuracy, Cell([outcome.loss for outcome in found])

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
        lost = difference(plain[0], both[0])
        gained = difference(both[0], none[0])
        checks += [
            at_most(f"{pair}: uncompressed - both", lost, SPARED),
            at_least(f"{pair}: both - none", gained, NEEDED),
        ]
    every, more = _every(scale, scale.of(300, 3))
    return Report(
        number=2,
        title="Compression in both directions needs both memories",
        source="DoubleSqueeze, ICML 2019; Gao et al., AAAI 2021",
        tables=[Table(f"After {rounds} rounds", ("accuracy", "loss"), rows), every],
        checks=checks + more,
    )


COLUMNS = ("no memory", "both", "both - none", "uncompressed - both", "kB, both")


def _every(scale: Scale, rounds: int) -> tuple[Table, list[Check]]:
    """Every registered contraction, in both directions."""

    def measure(codec: Codec, *, memory: bool) -> list[Outcome]:
        uplink = codec.remembered if memory else codec.uplink
        server = Coordinator if memory else Forgetful
        return [
            train(uplink, codec.downlink, server, rounds, seed) for seed in scale.seeds
        ]

    plain = measure(Codec(Identity(), Identity()), memory=False)
    sizes = Cell([outcome.kilobytes for outcome in plain])
    right = Cell([outcome.accuracy for outcome in plain])
    zero = Cell([0.0 for _ in plain])
    rows, checks = {"uncompressed": (right, right, zero, zero, sizes)}, list[Check]()
    for name, codec in {**every_codec(), **FOLLOWED}.items():
        none, both = (measure(codec, memory=memory) for memory in (False, True))
        gained = Cell(
            [b.accuracy - n.accuracy for n, b in zip(none, both, strict=True)]
        )
        lost = Cell([p.accuracy - b.accuracy for p, b in zip(plain, both, strict=True)])
        rows[name] = (
            Cell([outcome.accuracy for outcome in none]),
            Cell([outcome.accuracy for outcome in both]),
            gained,
            lost,
            Cell([outcome.kilobytes for outcome in both]),
        )
        known, text = KNOWN.get(name, ""), f"{name}: uncompressed - both"
        checks += [
            at_most(text, average(lost), SPARED, known=known),
            at_least(f"{name}: both - none", average(gained), NEEDED, gates=False),
        ]
    title = f"Every contraction, {len(scale.seeds)} seeds: accuracy, kB a round"
    return Table(title, COLUMNS, rows), checks


def train(
    uplink: CompressorConfig,
    downlink: CompressorConfig,
    server: type[Coordinator],
    rounds: int,
    seed: int,
) -> Outcome:
    """The public model after so many rounds."""
    parts = dirichlet(digits("train")[1], clients=CLIENTS, alpha=0.3, seed=seed)
    follows = server_optimizers.EF21(share=COHORT / CLIENTS)
    server_side = follows if isinstance(uplink, EF21) else None
    config = in_rounds(COHORT, uplink, downlink, server_side)
    federation = Federation(config, parts, seed, coordinator=server)
    for _ in range(rounds):
        federation.round()
    last, bytes_ = federation.quality(), federation.sent + federation.fetched
    return Outcome(last.accuracy, last.loss, bytes_ / (1000 * rounds * COHORT))
