"""DS-Sync: each round clients are dealt out anew, and average within their groups.

Wang, Zhang, Yang, Xia, Chen, Tan, "Divide-and-Shuffle Synchronization for Distributed
Machine Learning", arXiv 2007.03298: the workers are divided into groups that do not
overlap, each group averages the models of its members alone, and members change groups
from one iteration to the next, so that all models come to a consensus. Only the
abstract was at hand. That groups are equal and drawn at random (``random``), and that
n² workers may take turns between the rows and the columns of a square (``grid``), is
from the general literature and could not be checked against the paper.

A client's model is that of the group in which it averaged last: the server sends it to
train on. So a client's half is plain local SGD. Aggregator ``ds_sync`` averages the
updates of each new group, and keeps the groups' models; the public model is the mean of
all.

Which group a client is in follows from its number and from the version alone, so a
replay finds the same groups. Its number is that of its part of the data; clients that
say none are numbered as they join. A client that missed a round goes on with the model
of the group that it would have been in; the paper knows no such clients.
"""

from collections.abc import Hashable
from functools import lru_cache
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedcore.clients._sgd import SGDConfig
from fedcore.config import Roles
from fedcore.rng import Key, bits

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
        """False: training code of one's own is given no groups."""
        return False

    @property
    def groups_by(self) -> tuple[Hashable, ...]:
        """The number of groups, and how clients are dealt out to them."""
        return (self.groups, self.shuffle, self.seed) if self.groups > 1 else ()

    def group_of(self, place: tuple[int, int], version: int) -> int:
        """Returns the group whose model a client has at a version.

        Args:
            place: the client's number, from 0, and how many clients there are.
            version: of the public model.
        """
        index, count = place
        if self.shuffle == "fixed":
            return index % self.groups
        if self.shuffle == "grid":
            return (index if version % 2 else index // self.groups) % self.groups
        block, index = divmod(index % count, _BLOCK)
        count = min(_BLOCK, count - block * _BLOCK)
        return _order(self.seed, version, block, count)[index] % self.groups

    def fits(self, roles: Roles) -> None:
        """Refuses recipes in which a group's average would be something else.

        Raises:
            ValueError: updates may be late, are weighed by staleness, or are not
                averaged by group; the server moves W elsewhere than to the mean; or
                there are too few for groups.
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
        server = roles.server
        if self.groups > 1 and (server.kind, getattr(server, "lr", 0)) != ("sgd", 1):
            raise ValueError(
                f"client: ds_sync needs server sgd with lr 1, and not {server.kind}"
                f"{f' with lr {server.lr:g}' if server.kind == 'sgd' else ''}: the "
                "model of a group is the mean of its members' models, and the public "
                "model that of all"
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

    @model_validator(mode="after")
    def _keeps_nothing(self) -> Self:
        if self.keep_momentum:
            raise ValueError(
                "ds_sync begins each task with the model of another group, and keeps "
                "no momentum of the one before; leave keep_momentum out"
            )
        return self


@lru_cache(maxsize=64)
def _order(seed: int, version: int, block: int, count: int) -> tuple[int, ...]:
    """Returns the place of each client in a random order, equal on any machine."""
    key = Key.root(seed).fold_in("groups", version, block)
    word = np.array(key.seed(), np.uint64)
    drawn_N = bits(word, 0, count)
    return tuple(np.argsort(np.argsort(drawn_N, kind="stable")).tolist())
