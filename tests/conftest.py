"""What all tests share."""

import gc
import os
import signal
import time
from collections.abc import Iterator
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from fedview.report import page
from tests.page_faults import Checked

DEAR = 0.005  # seconds of CPU for the garbage of one test

# Ctrl-C is heard, as on a terminal: what a shell starts in the background ignores it,
# and so would all processes that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples on every machine and every day; CI cannot be unlucky.
settings.register_profile(
    "latecomer",
    deadline=None,
    derandomize=True,
    max_examples=20,
    suppress_health_check=[HealthCheck.too_slow],
)
# What CI never saw: pytest --hypothesis-profile=explore
settings.register_profile("explore", deadline=None, max_examples=100, database=None)
settings.load_profile("latecomer")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all-there",
        action="store_true",
        help="a test whose package or data set is missing fails; it is not skipped",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips what needs a package or a data set that is not here."""
    missing = lacking(item)
    if missing and item.config.getoption("all_there"):
        pytest.fail(missing, pytrace=False)
    if missing:
        pytest.skip(missing)


def lacking(item: pytest.Item) -> str:
    """What is not here of all that a test needs."""
    how = "test-heavy" if item.get_closest_marker("heavy") else "test-extras"
    for mark in item.iter_markers("needs"):
        for module in mark.args:
            if not _is_there(module):
                return f"{module} is not installed: make {how}"
    for mark in item.iter_markers("needs_data"):
        for name in mark.args:
            if not (Path(os.environ.get("LATECOMER_DATA", "")) / name).is_file():
                return f"LATECOMER_DATA names no folder with {name}"
    return ""


def _is_there(module: str) -> bool:
    """Whether a module can be imported; its packages may be missing as well."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@pytest.fixture(scope="session", autouse=True)
def _every_page_is_sound() -> Iterator[None]:
    """Looks at each page that a test makes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "_PAGE", Checked(page._PAGE))
        yield


@pytest.fixture(scope="session", autouse=True)
def _simulations_leave_the_collector_alone() -> Iterator[None]:
    """Keeps exempt what was there before: a simulation ends all exemptions.

    After each one, the collector would search all that tests have imported, for .3 s.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedsim.engines.stacked.clients.few_collections", nullcontext)
        yield


@pytest.fixture(scope="module", autouse=True)
def _only_what_tests_make() -> None:
    """Spares the collector of garbage what was there before, which takes .1 s.

    What earlier modules left stays spared, or each module would pay for all of it.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _nothing_forgotten() -> Iterator[None]:
    """Has a test that forgets a socket or a file fail, and not a later one.

    The collector of garbage finds it, as a ResourceWarning, which is an error. Where a
    test imported so much that this takes long, later ones are spared what is left.
    """
    yield
    began = time.process_time()
    gc.collect()
    if time.process_time() - began > DEAR:
        gc.freeze()
