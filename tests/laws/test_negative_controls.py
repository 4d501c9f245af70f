"""What a memory must not hold is refused, and diverges if it is forced in."""

import numpy as np
import pytest
from pydantic import ValidationError

from fedcore import payloads
from fedcore.compressors import (
    EF21,
    Compressor,
    CompressorConfig,
    ErrorFeedback,
    MemoryConfig,
    RandomK,
)
from fedcore.recipes import FedBuff
from fedcore.rng import Key
from tests.laws.compressors import ALONE, CONTRACTIONS
from tests.laws.registered import named
from tests.laws.vectors import vector

DIM, ROUNDS, RATE = 64, 100, 0.1
OTHERS = [config for config in ALONE if config not in CONTRACTIONS]


@named(OTHERS)
@pytest.mark.parametrize("memory", [ErrorFeedback, EF21])
def test_what_is_no_contraction_is_refused_by_the_memories_of_both_sides(
    memory: type[MemoryConfig], config: CompressorConfig
) -> None:
    said = f"{config.kind} is {config.bias} with these settings"
    with pytest.raises(ValidationError, match=f"{said}, and an error memory around"):
        memory.model_validate({"inner": config})
    with pytest.raises(ValidationError, match=f"{said}; the server's memory W - X"):
        FedBuff(downlink=config)


def descended(compressor: Compressor) -> float:
    """How far gradient descent on ‖x‖²/2 is from zero, over where it began."""
    x_D, memory_D = vector("gaussian", DIM), compressor.init(DIM)
    began = float(np.linalg.norm(x_D))
    for step in range(ROUNDS):
        delta_D = np.float32(RATE) * x_D
        message, memory_D = compressor.encode(delta_D, memory_D, Key.root(step))
        x_D = x_D - payloads.decode(message)
    return float(np.linalg.norm(x_D)) / began


def test_the_unbiased_random_k_makes_descent_with_a_memory_diverge() -> None:
    biased, unbiased = (
        RandomK(ratio=0.25, unbiased=unbiased).build((DIM,))
        for unbiased in (False, True)
    )
    forced = ErrorFeedback().remember(unbiased)  # what no config can ask for
    assert descended(ErrorFeedback().remember(biased)) < 0.05
    with np.errstate(over="ignore", invalid="ignore"):
        assert not descended(forced) < 1e6
