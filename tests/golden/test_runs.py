"""Simulated federations come to the very models that they came to before."""

import pytest

torch = pytest.importorskip("torch")

from fedcore.kernels import in_use  # noqa: E402
from fedtorch.compiled import loop  # noqa: E402
from tests.golden.runs import (  # noqa: E402
    ENGINES,
    FEDERATIONS,
    arithmetic,
    came_to,
    saved,
)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", FEDERATIONS)
def test_a_federation_comes_to_what_it_came_to(name: str, engine: str) -> None:
    known = saved().get(arithmetic(), {}).get(f"{name}, {engine}")
    compiled = in_use() == "compiled" and loop.available
    if known is None or not compiled:
        pytest.skip("this run was saved where arithmetic rounds another way")
    assert came_to(name, engine) == known
