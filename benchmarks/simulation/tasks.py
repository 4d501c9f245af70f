"""The simulated tasks, with their contenders and numbers of rounds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.simulation.environments import ENVIRONMENTS
from fedcore.typing import JSON

WARM = 0.2  # of the rounds, which do not count
TWO_PROCESSES = ("torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A program, what it is handed, and for how many rounds: some seconds' worth."""

    module: str
    problem: str
    rounds: int
    environment: str = ""  # none: the one that we run in
    launcher: Sequence[str] = ()  # a module which starts it
    settings: JSON = field(default_factory=dict)
    check: int = 0  # instead of the task's, where a round is not a cohort

    @property
    def warm(self) -> int:
        """The rounds that do not count."""
        return max(1, round(WARM * self.rounds))


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A contest. The ratio of a row is how much faster the first row is."""

    title: str
    check: int  # after so many rounds all models are compared
    contenders: Mapping[str, Contender]


def _library(name: str) -> str:
    """With its version."""
    pinned = ENVIRONMENTS[name].requirements[0]
    library, _, version = pinned.partition("==")
    return f"{library.partition('[')[0]} {version}"


OURS, NUMPY, TORCH = "latecomer", "batched products, NumPy", "batched products, torch"
LOOP, VMAP = "torch loop", "torch.func vmap"
FLOWER, PFL = _library("flower"), _library("pfl")
BLAZEFL, FEDJAX = _library("blazefl"), _library("fedjax")
PFL_2 = f"{PFL}, 2 processes"
TWO, ONE, RAY = "2 processes", "1 process", f"{_library('ray')}, 2 actors"


def ours(
    problem: str, rounds: int, check: int = 0, environment: str = "", **settings: JSON
) -> Contender:
    """``latecomer.run``, with changes of its config."""
    return Contender(
        module="benchmarks.simulation.ours",
        problem=problem,
        rounds=rounds,
        environment=environment,
        check=check,
        settings=settings,
    )


def peer(
    module: str, problem: str, rounds: int, environment: str = "", *launcher: str
) -> Contender:
    """One of the programs in ``peers``."""
    return Contender(
        module=f"benchmarks.simulation.peers.{module}",
        problem=problem,
        rounds=rounds,
        environment=environment,
        launcher=launcher,
    )


def _fed_avg(problem: str, rounds: Mapping[str, int]) -> dict[str, Contender]:
    known = {
        NUMPY: ("batched_numpy",),
        TORCH: ("batched_torch",),
        VMAP: ("torch_vmap",),
        LOOP: ("torch_loop",),
        FEDJAX: ("fedjax", "fedjax"),
        BLAZEFL: ("blazefl", "blazefl"),
        PFL: ("pfl", "pfl"),
        PFL_2: ("pfl", "pfl", *TWO_PROCESSES),
        FLOWER: ("flower", "flower"),
    }
    return {OURS: ours(problem, rounds[OURS])} | {
        name: peer(words[0], problem, rounds[name], *words[1:])
        for name, words in known.items()
        if name in rounds
    }


# The largest values as top-k, with memories on both sides.
TOP_K = {
    "uplink": {"kind": "error_feedback", "inner": {"kind": "top_k", "ratio": 0.05}},
    "downlink": {"kind": "top_k", "ratio": 0.1},
}
ADA_SGD = {"staleness": {"kind": "ada_sgd"}}
BUFFERED = {"kind": "fed_buff", "buffer": 10}
UNEQUAL = {"clients": 1000, "speed": {"kind": "log_normal", "sigma": 1.0}}
THOUSAND = "digits, 1,000"
STEPS = {"client": {"steps": 20, "epochs": None, "batch": 32}}

TASKS = {
    "A": Task(
        title="A: digits, MLP 64-32-10, 10 of 100 clients a round",
        check=60,
        contenders=_fed_avg(
            "digits, 100",
            {OURS: 1500, NUMPY: 6000, TORCH: 3000, VMAP: 500, LOOP: 400}
            | {FEDJAX: 400, BLAZEFL: 250, PFL: 250, PFL_2: 300, FLOWER: 60},
        ),
    ),
    "B": Task(
        title="B: digits, MLP 64-32-10, 100 of 1,000 clients of 20 samples a round",
        check=15,
        contenders=_fed_avg(
            THOUSAND,
            {OURS: 400, NUMPY: 2000, TORCH: 1000, VMAP: 200, LOOP: 40}
            | {FEDJAX: 40, BLAZEFL: 30, PFL: 30, PFL_2: 40, FLOWER: 15},
        ),
    ),
    "fashion": Task(
        title="Fashion-MNIST, CNN of 106,122, 50 of 1,000 clients a round",
        check=10,
        contenders=_fed_avg("fashion", {OURS: 15, LOOP: 15, PFL: 15, PFL_2: 20}),
    ),
    "processes": Task(
        title="Fashion-MNIST, CNN of 106,122, 50 of 1,000 clients a round",
        check=10,
        contenders={
            TWO: ours("fashion", 120, simulate={"engine": {"processes": 2}}),
            ONE: ours("fashion", 120, simulate={"engine": {"processes": 1}}),
            RAY: ours(
                "fashion",
                120,
                environment="ray",
                simulate={"engine": {"kind": "ray", "actors": 2}},
            ),
        },
    ),
    "population": Task(
        title="digits, MLP 64-32-10, 100 clients a round, of ever more",
        check=15,
        contenders={
            f"{clients} clients": ours(f"digits, {clients}", 400)
            for clients in ("1,000", "10,000", "100,000")
        },
    ),
    "tiny": Task(
        title="digits, MLP 64-32-10, clients of 1,000 to 46,251 rows, 20 steps each",
        check=60,
        contenders={
            "15 clients": ours("digits, unequal", 600, algorithm=STEPS),
            "and one of 25 rows": ours(
                "digits, unequal and one tiny", 600, algorithm=STEPS
            ),
        },
    ),
    "asynchronous": Task(
        title="digits, MLP 64-32-10, 1,000 clients of 20 samples, in rounds of 100 or "
        "versions of 10 updates, of which 10 count as a round",
        check=150,
        contenders={
            "rounds": ours(THOUSAND, 200),
            "rounds, top-k with memories": ours(THOUSAND, 200, algorithm=TOP_K),
            "1,000 in flight, FedBuff": ours(
                THOUSAND, 2000, 1500, algorithm=BUFFERED, simulate=UNEQUAL
            ),
            "1,000 in flight, AdaSGD": ours(
                THOUSAND, 2000, 1500, algorithm=BUFFERED | ADA_SGD, simulate=UNEQUAL
            ),
            "1,000 in flight, AdaSGD, top-k with memories": ours(
                THOUSAND,
                2000,
                1500,
                algorithm=BUFFERED | ADA_SGD | TOP_K,
                simulate=UNEQUAL,
            ),
        },
    ),
}
