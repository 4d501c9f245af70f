"""Federations of real processes, in a folder that each test has for itself."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tools.local import LocalFederation

APP = Path(__file__).parent / "numpy_app.py"
Make = Callable[..., LocalFederation]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks all tests that ask for a federation of real processes."""
    for item in items:
        if "federation" in getattr(item, "fixturenames", ()):
            item.add_marker("processes")


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Make]:
    """Makes a federation of the small NumPy app; it is killed after the test."""
    with ExitStack() as stack:

        def make(name: str = "fed", **config: Any) -> LocalFederation:
            folder = tmp_path / name
            settings = {
                "app": f"{APP}:workload",
                "server": {"listen": "127.0.0.1:0", "journal": "run"},
                **config,
            }
            made = LocalFederation(folder, settings, app=f"{APP}:workload")
            return stack.enter_context(made)

        yield make
