"""Simulated federations come to the very models that they came to before."""

import pytest

from fedcore.kernels.library import in_use

torch = pytest.importorskip("torch")

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
    known = saved()
    if known["arithmetic"] != arithmetic() or in_use() != "compiled":
        pytest.skip("runs.json was saved where arithmetic rounds another way")
    assert came_to(name, engine) == known["runs"][f"{name}, {engine}"]
