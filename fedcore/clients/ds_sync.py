"""DS-Sync: each round clients are dealt out anew, and average within their groups.

Wang, Zhang, Yang, Xia, Chen, Tan, "Divide-and-Shuffle Synchronization for Distributed
Machine Learning", arXiv 2007.03298: the workers are divided into groups that do not
overlap, each group averages the models of its members alone, and members change groups
from one iteration to the next, so that all models come to a consensus. Only the
abstract was at hand. That groups are equal and drawn at random (``random``), and that
n² workers may take turns between the rows and the columns of a square (``grid``), is
from the general literature and could not be checked against the paper.

A client's model is that of the group in which it averaged last. The server publishes
the mean W of all models, and for each group d_k = M_k - W beside it. A client of group
a begins at W + d_a and ends at x; its update is W - x = Δ - d_a. Aggregator ``ds_sync``
averages the updates of each new group, from which the next W and d_k follow.

Which group a client is in follows from its number, that of its part of the data, and
from the version alone, so client and server know it without a message, and a replay
finds the same groups. A client that missed a round goes on with the model of the group
that it would have been in; the paper knows no such clients.
"""

from functools import lru_cache
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedcore.arrays import array_namespace, like
from fedcore.clients._sgd import SGDConfig
from fedcore.clients.base import Place, TakeSteps, Trained
from fedcore.config import Roles
from fedcore.rng import Key, bits
from fedcore.typing import Array, Counts, State, Vector

Shuffle = Literal["random", "grid", "fixed"]
_BLOCK = 4096  # clients that are dealt out together: what peers say costs no more


class DSSync(SGDConfig):
    """Local SGD on the model of a client's group, which changes from round to round."""

    shared: ClassVar[frozenset[str]] = SGDConfig.shared | {"groups", "shuffle", "seed"}

    kind: Literal["ds_sync"] = "ds_sync"
    groups: int = Field(default=2, ge=1, le=64)
    """How many groups there are. With 1 it is federated averaging."""
    shuffle: Shuffle = "random"
    """``random``: groups of equal size are drawn for each version. ``grid``: groups²
    clients stand in a square, and its rows and columns take turns, so that two rounds
    without training make all models equal. ``fixed``: no client ever changes its group;
    for comparison, since the groups' models then drift apart."""
    seed: int = Field(default=0, ge=0)
    """Of the random groups."""

    @property
    def is_plain(self) -> bool:
        """False: a training loop of one's own begins with the public model."""
        return False

    @property
    def companions(self) -> tuple[str, ...]:
        """Names d_k of each group; one group has none, since d is zero."""
        return tuple(f"group_{k}" for k in range(self.groups) if self.groups > 1)

    @property
    def counts_updates(self) -> bool:
        """False: clients keep nothing of their updates."""
        return False

    def group_of(self, index: int, count: int, version: int) -> int:
        """Returns the group whose model a client has at a version.

        Args:
            index: the client's number, from 0.
            count: how many clients there are.
            version: of the public model.
        """
        if self.shuffle == "fixed":
            return index % self.groups
        if self.shuffle == "grid":
            return (index if version % 2 else index // self.groups) % self.groups
        block, index = divmod(index % count, _BLOCK)
        count = min(_BLOCK, count - block * _BLOCK)
        return _order(self.seed, version, block, count)[index] % self.groups

    def place_state(self, kept: State, place: Place) -> Vector:
        """Returns the client's group, (1,)."""
        return np.array([self.group_of(*place)], np.float32)

    def fits(self, roles: Roles) -> None:
        """Refuses recipes in which a group's average would be something else.

        Raises:
            ValueError: updates may be late, are weighed by staleness, come again out of
                a memory, or are not averaged by group; or there are too few for groups.
        """
        if roles.aggregator.kind != "ds_sync":
            raise ValueError(
                f"client: ds_sync needs aggregator ds_sync, which averages by group, "
                f"and not {roles.aggregator.kind}"
            )
        if roles.staleness_limit != 0:
            raise ValueError(
                "client: ds_sync needs rounds, with staleness_limit 0: a group "
                "averages models of one version"
            )
        if roles.staleness.kind != "constant":
            raise ValueError(
                "client: ds_sync needs staleness constant: all members of a group "
                f"count, and {roles.staleness.kind} weighs them"
            )
        if roles.uplink.holds != "nothing":
            inner = getattr(roles.uplink, "inner", roles.uplink)
            raise ValueError(
                f"client: ds_sync needs an uplink without memory, and "
                f"{roles.uplink.kind} has one: an update is the whole difference to "
                "the public model, and a part of it that came later would count "
                f"twice; name the inner compressor alone ({inner.kind})"
            )
        if self.groups > roles.buffer:
            raise ValueError(
                f"client: {self.groups} groups need a buffer of as many updates at "
                f"least, and buffer is {roles.buffer}"
            )
        if self.shuffle == "grid" and roles.buffer != self.groups**2:
            raise ValueError(
                f"client: shuffle grid with {self.groups} groups is for "
                f"{self.groups**2} clients, and buffer is {roles.buffer}"
            )

    def publish(
        self, beside_D: Vector, mean_D: Vector, share: float, before: float
    ) -> Vector:
        """Returns the new d_k, as the aggregator has found them."""
        return mean_D

    @model_validator(mode="after")
    def _keeps_nothing(self) -> Self:
        if self.keep_momentum:
            raise ValueError(
                "ds_sync begins each task with the model of another group, and keeps "
                "no momentum of the one before; leave keep_momentum out"
            )
        return self

    def _run(
        self, start_D: Array, steps: int | Counts, take: TakeSteps, state: State
    ) -> Trained:
        if self.groups == 1:
            return super()._run(start_D, steps, take, None)
        xp, dim = array_namespace(start_D), start_D.shape[-1] // (1 + self.groups)
        group_1 = like(np.zeros(1, np.float32) if state is None else state, start_D)
        model_D, beside_D = start_D[..., :dim], start_D[..., dim : 2 * dim]
        for k in range(1, self.groups):
            own_D = start_D[..., (1 + k) * dim : (2 + k) * dim]
            beside_D = xp.where(group_1 == k, own_D, beside_D)
        taken = super()._run(model_D + beside_D, steps, take, None)
        nothing_D = xp.zeros_like(start_D[..., dim:])
        delta_D = xp.concat([taken.delta_D - beside_D, nothing_D], axis=-1)
        return Trained(delta_D, taken.loss, None)


@lru_cache(maxsize=64)
def _order(seed: int, version: int, block: int, count: int) -> tuple[int, ...]:
    """Returns the place of each client in a random order, equal on any machine."""
    key = Key.root(seed).fold_in("groups", version, block)
    word = np.array(key.seed(), np.uint64)
    drawn_N = bits(word, 0, count)
    return tuple(np.argsort(np.argsort(drawn_N, kind="stable")).tolist())
