"""The contenders: the recipes as they are published, with two rates to tune."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from fedcore.typing import JSON

OVER_SELECTION = 1.3
# Models are mixed with the one that a client began with, so all of them are kept; of
# the other recipes nothing that arrives is too late.
MIXED_LIMIT, LIMIT = 1000, 100_000
_PLAIN: JSON = {"kind": "identity"}


class Rates(NamedTuple):
    """Learning rates, of clients and of the server."""

    client: float
    server: float

    def __str__(self) -> str:
        """Both."""
        return f"client {self.client:g}, server {self.server:g}"


Section = Callable[[int, float], JSON]  # of clients in flight, and the server's rate


@dataclass(frozen=True, slots=True)
class Contender:
    """A recipe."""

    name: str
    section: Section
    buffer: Callable[[int], int]  # updates of a version, of clients in flight
    rates_of: str = ""  # another one's, instead of rates of its own
    fixed: Rates | None = None  # its defaults: nothing is tuned
    client: str = "local_sgd"
    steps: int | None = None  # of a task; None: an epoch

    def algorithm(self, flight: int, rates: Rates, batch: int) -> JSON:
        """The section ``algorithm`` of a config."""
        work = {"epochs": 1} if self.steps is None else {"steps": self.steps}
        client = {"kind": self.client, "batch": batch, "lr": rates.client, **work}
        buffer = self.buffer(flight)
        section = self.section(flight, rates.server)
        return {"buffer": buffer, "client": client, **section}


def _four(flight: int) -> int:
    """Returns the default recipe's K, however many clients are in flight."""
    return 4


def _ten(flight: int) -> int:
    """Returns FedBuff's K, or a third of those in flight where that is less."""
    return min(10, flight // 3)


def _sgd(rate: float) -> JSON:
    return {"kind": "sgd", "lr": rate}


def _fed_avg(flight: int, rate: float) -> JSON:
    return {
        "kind": "fed_avg",
        "over_selection": OVER_SELECTION,
        "deadline": None,
        "server": _sgd(rate),
    }


def _fed_buff(flight: int, rate: float) -> JSON:
    return {
        "kind": "fed_buff",
        "concurrency": flight,
        "staleness_limit": LIMIT,
        "server": _sgd(rate),
    }


def _dyn_sgd(flight: int, rate: float) -> JSON:
    """Its weights, at a buffer of one, on updates as long as everybody's."""
    return {**_fed_buff(flight, rate), "kind": "dyn_sgd"}


def _ca2fl(flight: int, rate: float) -> JSON:
    return {**_fed_buff(flight, rate), "kind": "ca2fl"}


def _mifa(flight: int, rate: float) -> JSON:
    return {**_fed_avg(flight, rate), "kind": "mifa"}


def _unweighted(flight: int, rate: float) -> JSON:
    return {**_fed_buff(flight, rate), "staleness": {"kind": "constant"}}


def _fed_async(flight: int, rate: float) -> JSON:
    """α is the server's rate; where it is above 1, the rest is the optimiser's."""
    alpha = min(1.0, rate)
    return {
        "kind": "fed_async",
        "concurrency": flight,
        "staleness_limit": MIXED_LIMIT,
        "aggregator": {"kind": "mixing", "alpha": alpha},
        "server": _sgd(rate / alpha),
    }


def _latecomer(flight: int, rate: float) -> JSON:
    """The default recipe, without its codecs."""
    return {**_with_codecs(flight, rate), "uplink": _PLAIN, "downlink": _PLAIN}


def _with_codecs(flight: int, rate: float) -> JSON:
    return {
        "kind": "latecomer",
        "concurrency": flight,
        "staleness_limit": LIMIT,
        "server": {"kind": "schedule_free", "lr": rate},
    }


def _adaptive(flight: int, rate: float) -> JSON:
    """With fewer local steps as the loss falls."""
    controller: JSON = {"kind": "ada_comm", "period": 10.0}
    return {**_latecomer(flight, rate), "controllers": [controller]}


def _profiled(flight: int, rate: float) -> JSON:
    """With as many samples for each device as it trains on in a unit of time."""
    controller: JSON = {"kind": "i_prof", "seconds": 1.0}
    return {**_latecomer(flight, rate), "controllers": [controller]}


def _weighing(kind: str, **settings: float) -> Section:
    """The default recipe as it was before it averaged, with these weights."""
    weights: JSON = {"kind": kind, **settings}
    return lambda flight, rate: {**_fed_buff(flight, rate), "staleness": weights}


def _averaged(flight: int, rate: float) -> JSON:
    """With schedule-free averaging at the server, over fewer versions."""
    server: JSON = {"kind": "schedule_free", "lr": rate, "power": 8.0}
    return {**_weighing("polynomial")(flight, rate), "server": server}


def _earlier(flight: int, rate: float) -> JSON:
    """The default recipe as it was before fresh updates counted twice."""
    weights: JSON = {
        "kind": "label_boost",
        "inner": {"kind": "delay_adaptive", "limit": 5.0},
    }
    averaged = _averaged(flight, rate)["server"]
    return {**_latecomer(flight, rate), "staleness": weights, "server": averaged}


SYNCHRONOUS, BUFFERED, MIXED, OURS = "FedAvg", "FedBuff", "FedAsync", "Latecomer"
CODED, ADAPTIVE = "Latecomer, codecs on", "Latecomer, AdaComm"
TUNED = "Latecomer, rates tuned"
PROFILED, SHORT, SINGLE = "Latecomer, I-Prof", "Latecomer, 5 steps", "Latecomer, 1 step"
# Other weights and servers in place of the default recipe's.
BOOSTED, UNBOOSTED = "square root and boost", "square root"
AVERAGED, EARLIER = "square root, averaged", "Latecomer, rate 1"
DYN, CACHED, MEMORY = "DynSGD", "CA2FL", "MIFA"
ADA, ADA_10, GENTLER = "AdaSGD", "AdaSGD, K 10", "AdaSGD, s 99.7"
OWN = Rates(0.1, 2.0)  # the defaults, of clients and of the recipe's server

CONTENDERS = {
    contender.name: contender
    for contender in (
        Contender(SYNCHRONOUS, _fed_avg, lambda flight: round(flight / OVER_SELECTION)),
        Contender(BUFFERED, _fed_buff, _ten),
        Contender(MIXED, _fed_async, lambda flight: 1, client="fed_prox"),
        Contender(OURS, _latecomer, _four, fixed=OWN),
        Contender(CODED, _with_codecs, _four, fixed=OWN),
        Contender(ADAPTIVE, _adaptive, _four, fixed=OWN),
        Contender(TUNED, _latecomer, _four),
        Contender(PROFILED, _profiled, _four, fixed=OWN),
        Contender(SHORT, _latecomer, _four, fixed=OWN, steps=5),
        Contender(SINGLE, _latecomer, _four, fixed=OWN, steps=1),
        Contender(EARLIER, _earlier, _four, fixed=Rates(0.1, 1.0)),
        Contender(BOOSTED, _weighing("label_boost"), _four),
        Contender(UNBOOSTED, _weighing("polynomial"), _four),
        Contender(AVERAGED, _averaged, _four),
        Contender(DYN, _dyn_sgd, lambda flight: 1),
        Contender(CACHED, _ca2fl, _ten),
        Contender(MEMORY, _mifa, lambda flight: round(flight / OVER_SELECTION)),
        Contender(ADA, _weighing("ada_sgd", percentile=90), _four),
        Contender(ADA_10, _weighing("ada_sgd", percentile=90), lambda flight: 10),
        Contender(GENTLER, _weighing("ada_sgd", percentile=99.7), _four),
    )
}
MAIN = (SYNCHRONOUS, BUFFERED, MIXED, OURS)
UNWEIGHTED = Contender("FedBuff, unweighted", _unweighted, _ten)
