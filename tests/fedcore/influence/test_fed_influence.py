"""Fed-Influence: what is exact, what stays zero, and which mistakes would show."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore.influence import fed_influence
from fedcore.influence.base import Product
from fedcore.influence.fed_influence import InfluenceState, Update
from fedcore.influence.fisher import fisher_product

Floats = npt.NDArray[np.float64]
CLIENTS, DIM, LR = 4, 3, 0.1


class Quadratics(NamedTuple):
    """A loss ½ wᵀA w - bᵀw for each client."""

    a_CDD: Floats
    b_CD: Floats

    def delta(self, client: int, w_D: Floats, steps: int) -> Floats:
        """The update of so many local steps."""
        start_D = w_D
        for _ in range(steps):
            w_D = w_D - LR * (self.a_CDD[client] @ w_D - self.b_CD[client])
        return start_D - w_D

    def product(self, client: int) -> Product:
        """Multiplies with the client's Hessian."""
        return lambda v_CD: v_CD @ self.a_CDD[client]


class Took(NamedTuple):
    """A client's part in a round."""

    client: int
    samples: float = 1.0
    late: int = 0
    weight: float = 1.0


def problem(seed: int) -> Quadratics:
    rng = np.random.default_rng(seed)
    root_CDD = rng.standard_normal((CLIENTS, DIM, DIM))
    a_CDD = np.einsum("cij,ckj->cik", root_CDD, root_CDD) / DIM
    return Quadratics(a_CDD, rng.standard_normal((CLIENTS, DIM)))


def trained(
    losses: Quadratics,
    rounds: list[list[Took]],
    steps: int,
    server_lr: float = 1.0,
    without: int | None = None,
) -> Floats:
    """The last model of a run, in which a client may be missing."""
    models = [np.ones(DIM)]
    for number, round_ in enumerate(rounds):
        there = [took for took in round_ if took.client != without]
        w_D = models[-1]
        if there:
            sum_D = sum(
                (
                    took.weight
                    * took.samples
                    * losses.delta(took.client, models[number - took.late], steps)
                    for took in there
                ),
                np.zeros(DIM),
            )
            w_D = w_D - server_lr * sum_D / sum(took.samples for took in there)
        models.append(w_D)
    return models[-1]


def estimated(
    losses: Quadratics,
    rounds: list[list[Took]],
    steps: int,
    *,
    server_lr: float = 1.0,
    lr: float = LR,
    most_late: int = 0,
    layers: list[slice] | None = None,
    sequential: bool = True,
    bend: Callable[[Product], Product] = lambda product: product,
) -> InfluenceState:
    """The estimate for all clients."""
    state = fed_influence.init(CLIENTS, DIM, max(1, len(layers or [])))
    models = [np.ones(DIM)]
    for number, round_ in enumerate(rounds):
        found = fed_influence.begin(state)
        for took in round_:
            base = number - took.late
            eps_CD = sigma_CD = fed_influence.eps_of(state, base)
            for _ in range(steps):
                product = bend(losses.product(took.client))
                sigma_CD = fed_influence.local_step(sigma_CD, product, lr)
            delta_D = losses.delta(took.client, models[base], steps)
            update = Update(took.client, took.weight, took.samples, delta_D, sigma_CD)
            found = fed_influence.fold(found, update, eps_CD)
        models.append(models[-1] - server_lr * found.delta_D / found.samples)
        state = fed_influence.close(
            state,
            found,
            server_lr=server_lr,
            layers=layers or (),
            sequential=sequential,
            oldest=number + 1 - most_late if most_late else None,
        )
    return state


def truth(losses: Quadratics, rounds: list[list[Took]], steps: int, s: float) -> Floats:
    whole_D = trained(losses, rounds, steps, s)
    return np.stack(
        [trained(losses, rounds, steps, s, c) - whole_D for c in range(CLIENTS)]
    )


cohorts = st.lists(
    st.lists(st.integers(0, CLIENTS - 1), min_size=1, max_size=4, unique=True),
    min_size=1,
    max_size=6,
)
FULL = [[Took(c) for c in range(CLIENTS)]] * 5


@given(
    seed=st.integers(0, 2**16),
    rounds=cohorts,
    steps=st.integers(0, 3),
    sizes=st.lists(st.integers(1, 9), min_size=CLIENTS, max_size=CLIENTS),
    server_lr=st.sampled_from([0.5, 1.0, 1.5]),
)
def test_the_estimate_is_leave_one_out_where_losses_are_quadratic(
    seed: int,
    rounds: list[list[int]],
    steps: int,
    sizes: list[int],
    server_lr: float,
) -> None:
    losses = problem(seed)
    took = [[Took(c, sizes[c]) for c in cohort] for cohort in rounds]
    found = estimated(losses, took, steps, server_lr=server_lr)
    exact_CD = truth(losses, took, steps, server_lr)
    np.testing.assert_allclose(found.eps_CD, exact_CD, atol=1e-8)
    assert found.version == len(rounds)
    there = {c for cohort in rounds for c in cohort}
    for c in set(range(CLIENTS)) - there:
        assert not found.eps_CD[c].any()


@given(
    seed=st.integers(0, 2**16),
    rounds=st.lists(
        st.lists(
            st.tuples(
                st.integers(0, CLIENTS - 1),
                st.integers(1, 5),
                st.integers(0, 2),
                st.sampled_from([0.25, 0.5, 1.0]),
            ),
            min_size=1,
            max_size=4,
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_late_updates_carry_the_difference_of_the_version_they_are_based_on(
    seed: int, rounds: list[list[tuple[int, int, int, float]]]
) -> None:
    losses = problem(seed)
    took = [
        [Took(c, n, min(late, number), weight) for c, n, late, weight in round_]
        for number, round_ in enumerate(rounds)
    ]
    found = estimated(losses, took, 2, server_lr=0.7, most_late=2)
    np.testing.assert_allclose(found.eps_CD, truth(losses, took, 2, 0.7), atol=1e-8)
    assert len(found.earlier) <= 2


def test_a_client_that_never_took_part_has_no_influence() -> None:
    found = estimated(problem(0), [[Took(0), Took(2)], [Took(2), Took(1)]], 2)
    assert not found.eps_CD[3].any()
    assert found.eps_CD[:3].any(axis=1).all()


def test_without_local_steps_only_the_missing_share_of_the_mean_counts() -> None:
    losses = problem(1)
    found = fed_influence.begin(state := fed_influence.init(2, DIM))
    deltas = [losses.delta(c, np.ones(DIM), 2) for c in (0, 1)]
    for c in (0, 1):
        update = Update(c, 1.0, 1.0, deltas[c], state.eps_CD)
        found = fed_influence.fold(found, update, state.eps_CD)
    eps_CD = fed_influence.close(state, found).eps_CD
    mean_D = (deltas[0] + deltas[1]) / 2
    np.testing.assert_allclose(eps_CD, [mean_D - deltas[1], mean_D - deltas[0]])


def test_a_client_alone_in_a_round_takes_the_round_with_it() -> None:
    losses = problem(2)
    found = estimated(losses, [[Took(1)]], 2)
    np.testing.assert_allclose(found.eps_CD[1], losses.delta(1, np.ones(DIM), 2))
    assert not found.eps_CD[[0, 2, 3]].any()


@pytest.mark.parametrize(
    "mistake", ["no sequential term", "wrong sign", "no curvature"]
)
def test_a_wrong_estimator_is_far_from_leave_one_out(mistake: str) -> None:
    losses = problem(3)
    exact_CD = truth(losses, FULL, 2, 1.0)
    right = estimated(losses, FULL, 2).eps_CD
    wrong = {
        "no sequential term": lambda: estimated(losses, FULL, 2, sequential=False),
        "wrong sign": lambda: estimated(losses, FULL, 2, lr=-LR),
        "no curvature": lambda: estimated(losses, FULL, 2, lr=0.0),
    }[mistake]().eps_CD
    size = np.linalg.norm(exact_CD)
    assert np.linalg.norm(right - exact_CD) < 1e-10 * size
    assert np.linalg.norm(wrong - exact_CD) > 0.2 * size


def test_a_layer_that_grows_loses_its_sequential_term_for_good() -> None:
    losses = Quadratics(
        np.stack([np.diag([1.0, 1.0, -1.0])] * CLIENTS), problem(4).b_CD
    )
    layers = [slice(0, 2), slice(2, 3)]
    found = estimated(losses, FULL, 2, layers=layers)
    whole = estimated(losses, FULL, 2).eps_CD
    last = estimated(losses, FULL, 2, sequential=False).eps_CD
    assert found.truncated_CL.tolist() == [[False, True]] * CLIENTS
    np.testing.assert_allclose(found.eps_CD[:, :2], whole[:, :2])
    np.testing.assert_allclose(found.eps_CD[:, 2:], last[:, 2:])


def test_truncation_leaves_alone_what_does_not_grow() -> None:
    losses = problem(5)
    layers = [slice(0, DIM)]
    found = estimated(losses, FULL, 1, layers=layers)
    assert not found.truncated_CL.any()
    np.testing.assert_array_equal(found.eps_CD, estimated(losses, FULL, 1).eps_CD)


def test_weight_decay_bends_every_direction() -> None:
    v_CD = np.eye(3)
    moved = fed_influence.local_step(v_CD, lambda each: 0 * each, 0.5, 0.1)
    np.testing.assert_allclose(moved, 0.95 * v_CD)


def test_the_fisher_matrix_is_the_mean_of_outer_products() -> None:
    rng = np.random.default_rng(0)
    g_SD, v_CD = rng.standard_normal((7, DIM)), rng.standard_normal((2, DIM))
    matrix_DD = np.mean([np.outer(g, g) for g in g_SD], axis=0)
    np.testing.assert_allclose(fisher_product(g_SD)(v_CD), v_CD @ matrix_DD)
