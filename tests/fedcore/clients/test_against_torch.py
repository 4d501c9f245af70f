"""Client optimisers against torch.optim, step by step."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedcore.clients import (
    ClientAlgorithmConfig,
    LocalAdam,
    LocalAdamW,
    LocalSGD,
    TrajectoryAdam,
    TrajectorySGD,
)
from fedcore.typing import Array, Vector
from tests.fedcore.clients.trained import trained

torch = pytest.importorskip("torch")

DIM, STEPS = 20, 12
Torch = Callable[[Any], Any]
PAIRS: dict[str, tuple[ClientAlgorithmConfig, Torch]] = {
    "momentum": (
        LocalSGD(lr=0.05, momentum=0.9, weight_decay=0.1),
        lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=0.1),
    ),
    "nesterov": (
        LocalSGD(lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.1),
        lambda p: torch.optim.SGD(
            p, 0.05, momentum=0.9, nesterov=True, weight_decay=0.1
        ),
    ),
    "adam": (
        LocalAdam(lr=0.02, beta_1=0.8, beta_2=0.99),
        lambda p: torch.optim.Adam(p, 0.02, betas=(0.8, 0.99)),
    ),
    "adam with decay": (
        LocalAdam(lr=0.02, eps=0.01, weight_decay=0.1),
        lambda p: torch.optim.Adam(p, 0.02, eps=0.01, weight_decay=0.1),
    ),
    "adam_w": (
        LocalAdamW(lr=0.02, weight_decay=0.5),
        lambda p: torch.optim.AdamW(p, 0.02, weight_decay=0.5),
    ),
}
CLIPS: dict[str, tuple[dict[str, float], Callable[[Any], Any]]] = {
    "whole": ({}, lambda parameters: None),
    "by norm": (
        {"clip_norm": 0.5},
        lambda parameters: torch.nn.utils.clip_grad_norm_(parameters, 0.5),
    ),
    "by value": (
        {"clip_value": 0.1},
        lambda parameters: torch.nn.utils.clip_grad_value_(parameters, 0.1),
    ),
}


def gradient(w_D: Array, step: int) -> tuple[float, Array]:
    """Of a quadratic whose centre moves at random."""
    rng = np.random.default_rng(step)
    scale_D = np.linspace(0.1, 2, DIM, dtype=np.float32)
    return 1.0, scale_D * (w_D - rng.normal(size=DIM).astype(np.float32))


def by_torch(build: Torch, clip: Callable[[Any], Any], start_D: Vector) -> Vector:
    """The model after all steps, by torch's own optimiser in two parameters."""
    parts = [torch.nn.Parameter(torch.from_numpy(part.copy())) for part in start_D]
    optimizer = build(parts)
    for step in range(STEPS):
        w_D = np.concatenate([part.detach().numpy() for part in parts])
        _, g_D = gradient(w_D, step)
        for part, g in zip(parts, np.split(g_D, 2), strict=True):
            part.grad = torch.from_numpy(g.copy())
        clip(parts)
        optimizer.step()
    return np.concatenate([part.detach().numpy() for part in parts])


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("name", PAIRS)
def test_it_goes_where_torch_goes(name: str, clip: str) -> None:
    config, build = PAIRS[name]
    settings, by = CLIPS[clip]
    config = config.model_copy(update=settings)
    start_D = np.random.default_rng(99).normal(size=DIM).astype(np.float32)
    expected_D = by_torch(build, by, start_D.reshape(2, -1))
    found = trained(config, start_D, STEPS, gradient)
    np.testing.assert_allclose(start_D - found.delta_D, expected_D, atol=1e-6, rtol=0)


def test_kept_moments_go_on_where_the_task_before_ended() -> None:
    config = LocalAdam(lr=0.02, keep_moments=True)
    start_D = np.random.default_rng(99).normal(size=DIM).astype(np.float32)
    whole = trained(config, start_D, STEPS, gradient)
    first = trained(config, start_D, 5, gradient)
    middle_D = start_D - first.delta_D

    def later(w_D: Array, step: int) -> tuple[float, Array]:
        return gradient(w_D, step + 5)

    second = trained(config, middle_D, STEPS - 5, later, first.state)
    end_D = middle_D - second.delta_D
    np.testing.assert_allclose(end_D, start_D - whole.delta_D, atol=1e-6, rtol=0)
    assert second.state[-1] == STEPS
    anew = trained(config, middle_D, STEPS - 5, later)
    assert np.abs(middle_D - anew.delta_D - end_D).max() > 0.01
    assert trained(LocalAdam(), start_D, 3, gradient).state is None


@pytest.mark.parametrize(
    ("config", "base"),
    [
        (TrajectorySGD(inner_steps=1), LocalSGD(momentum=0.9, weight_decay=1e-4)),
        (TrajectoryAdam(inner_steps=1), LocalAdam(weight_decay=1e-4)),
    ],
)
def test_inner_loops_of_one_step_are_the_base_optimiser(
    config: ClientAlgorithmConfig, base: ClientAlgorithmConfig
) -> None:
    start_D = np.random.default_rng(99).normal(size=DIM).astype(np.float32)
    found = trained(config, start_D, STEPS, gradient)
    expected = trained(base, start_D, STEPS, gradient)
    np.testing.assert_allclose(found.delta_D, expected.delta_D, atol=1e-6)


def test_each_client_of_a_stack_counts_its_own_steps() -> None:
    config, rng = LocalAdam(lr=0.02, keep_moments=True), np.random.default_rng(1)
    start_ND = rng.normal(size=(3, DIM)).astype(np.float32)
    kept: list[Any] = [None] * 3
    for steps in ([6, 4, 1], [5, 5, 2]):
        stack = None if kept[0] is None else np.stack(kept)
        found = trained(config, start_ND, np.array(steps), gradient, stack)
        for row, own in enumerate(steps):
            alone = trained(config, start_ND[row], own, gradient, kept[row])
            np.testing.assert_allclose(found.delta_D[row], alone.delta_D, atol=1e-6)
            kept[row] = alone.state
    assert [state[-1] for state in kept] == [11, 9, 3]
