"""Fed-Influence: how the model would differ without a client, without retraining.

Xue, Niu, Zheng, Tang, Lyu, Wu, Chen, "Toward Understanding the Influence of Individual
Clients in Federated Learning", AAAI 2021, arXiv 2012.10936, §4. For every client c,
ε_c ≈ w_t(without c) - w_t, with ε_c = 0 at version 0. A round of the clients C_t, of
n_k samples each, with η the local learning rate, S' = C_t without c and N' its samples:

ε_c ← Σ_{k∈S'} (n_k / N') Π_i (I - η H_{t,i}^k) ε_c + [w_t(S') - w_t(C_t)]

The first term is sequential: the difference passes through the local steps of the other
clients. The second is combinatorial: c is missing from the mean. Layer-wise truncation
(LWET) ends the growth of errors in non-convex models: once ‖M ε‖ > ‖ε‖ in a layer, the
sequential term of that layer is left out from then on. We decide so for every client
by itself, which the paper calls the finer variant. The text of the equations was not
within reach; they are derived from the description, and are exact for quadratic losses.

Our extension: an update k may be based on an earlier version b, may count λ_k n_k in
the numerator of the mean, and the server may have a learning rate s. Then

ε_c ← ε_c + s Σ_{k≠c} (λ_k n_k / N') [Π_i (I - η H_i^k) - I] ε_c(b) + combinatorial,

which is the rule above where λ = s = 1 and b is the newest version. A version whose
updates all came from c would not exist; the model would stay as it was.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fedcore.influence.base import Product
from fedcore.typing import Array


class InfluenceState(NamedTuple):
    """The estimated differences ε of C clients."""

    version: int
    eps_CD: Array
    """Of the newest version."""
    earlier: dict[int, Array]
    """Those (C, D) of earlier versions on which updates may still be based."""
    truncated_CL: npt.NDArray[np.bool_]
    """Whether the sequential term of a client's layer is left out from now on."""


class Round(NamedTuple):
    """The state of one round so far."""

    moved_CD: Array
    """Σ λ n [Π (I - ηH) - I] ε over the updates of other clients."""
    delta_D: Array
    """Σ λ n Δ over all updates."""
    own: dict[int, Array]
    """Σ λ n Δ over the updates of those clients that took part."""
    samples: float
    """N = Σ n."""
    own_samples_C: npt.NDArray[np.float64]
    own_updates_C: npt.NDArray[np.int64]
    updates: int


class Update(NamedTuple):
    """One update of a round, and what it makes of the differences."""

    client: int | None
    """The row of its client; None: its influence is not estimated."""
    weight: float
    """λ."""
    samples: float
    """n, as the recipe counts it."""
    delta_D: Array
    """Δ = start - end of its local steps."""
    sigma_CD: Array
    """Π (I - ηH) ε_base, from :func:`local_step`."""


def init(clients: int, dim: int, layers: int = 1) -> InfluenceState:
    """Returns the state of version 0, where all differences are zero.

    Args:
        clients: C.
        dim: D.
        layers: how many layers may be truncated.
    """
    truncated_CL = np.zeros((clients, layers), np.bool_)
    return InfluenceState(0, np.zeros((clients, dim)), {}, truncated_CL)


def eps_of(state: InfluenceState, version: int) -> Array:
    """Returns ε of a version that is still kept, shape (C, D)."""
    return state.eps_CD if version == state.version else state.earlier[version]


def local_step(
    sigma_CD: Array, product: Product, lr: float, weight_decay: float = 0.0
) -> Array:
    """Returns (I - η (H + weight decay)) σ for each client: one local step of SGD.

    Args:
        sigma_CD: σ before the step, shape (C, D).
        product: multiplies with the Hessian of the step's minibatch.
        lr: η.
        weight_decay: what the step adds to the gradient, times w.
    """
    bent_CD = product(sigma_CD)
    if weight_decay:
        bent_CD = bent_CD + weight_decay * sigma_CD
    return sigma_CD - lr * bent_CD


def begin(state: InfluenceState) -> Round:
    """Returns a round without any updates."""
    clients, dim = state.eps_CD.shape
    return Round(
        moved_CD=np.zeros((clients, dim)),
        delta_D=np.zeros(dim),
        own={},
        samples=0.0,
        own_samples_C=np.zeros(clients),
        own_updates_C=np.zeros(clients, np.int64),
        updates=0,
    )


def fold(found: Round, update: Update, eps_base_CD: Array) -> Round:
    """Returns the round with one more update; writes into the round's own arrays.

    Args:
        found: the round so far.
        update: the one to add.
        eps_base_CD: ε of the version that it is based on.
    """
    share, who = update.weight * update.samples, update.client
    moved_CD = update.sigma_CD - eps_base_CD
    if who is not None:
        moved_CD[who] = 0.0  # without c, its own update is not there
        own_D = found.own.get(who, 0.0) + share * update.delta_D.astype(np.float64)
        found.own[who] = own_D
        found.own_samples_C[who] += update.samples
        found.own_updates_C[who] += 1
    found.moved_CD[...] += share * moved_CD
    found.delta_D[...] += share * update.delta_D.astype(np.float64)
    return found._replace(
        samples=found.samples + update.samples, updates=found.updates + 1
    )


def close(
    state: InfluenceState,
    found: Round,
    *,
    server_lr: float = 1.0,
    layers: Sequence[slice] = (),
    sequential: bool = True,
    combinatorial: bool = True,
    oldest: int | None = None,
) -> InfluenceState:
    """Returns the differences after the round.

    Args:
        state: before the round.
        found: the round, with all its updates.
        server_lr: s, the server's learning rate.
        layers: the layers that are truncated (LWET); none: no truncation.
        sequential: False leaves the sequential term out, for a comparison.
        combinatorial: False leaves the combinatorial term out, for a comparison.
        oldest: the oldest version on which a later update is based; None: no update is
            based on an earlier version than the newest.
    """
    alone_C = found.own_updates_C == found.updates
    others_C = np.where(alone_C, 1.0, found.samples - found.own_samples_C)
    flow_CD = state.eps_CD + (server_lr / others_C)[:, None] * found.moved_CD
    flow_CD[alone_C] = state.eps_CD[alone_C]
    truncated_CL = state.truncated_CL
    if layers:
        truncated_CL = truncated_CL | _has_grown(flow_CD, state.eps_CD, layers)
        for place, layer in enumerate(layers):
            flow_CD[truncated_CL[:, place], layer] = 0.0
    eps_CD = flow_CD if sequential else np.zeros_like(flow_CD)
    mean_D = found.delta_D / found.samples
    for who, own_D in found.own.items() if combinatorial else ():
        rest_D = 0.0 if alone_C[who] else (found.delta_D - own_D) / others_C[who]
        eps_CD[who] += server_lr * (mean_D - rest_D)
    earlier = {}
    if oldest is not None:
        known = {**state.earlier, state.version: state.eps_CD}
        earlier = {version: e for version, e in known.items() if version >= oldest}
    return InfluenceState(state.version + 1, eps_CD, earlier, truncated_CL)


def _has_grown(
    flow_CD: Array, eps_CD: Array, layers: Sequence[slice]
) -> npt.NDArray[np.bool_]:
    """Returns whether ‖M ε‖ > ‖ε‖, for each client and layer, shape (C, L)."""
    norms = [
        (
            np.linalg.norm(flow_CD[:, layer], axis=-1),
            np.linalg.norm(eps_CD[:, layer], axis=-1),
        )
        for layer in layers
    ]
    return np.stack([after > before for after, before in norms], axis=-1)
