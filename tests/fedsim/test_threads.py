"""Stacks are computed with one thread, unless somebody has said otherwise."""

import numpy as np
import pytest

from fedsim.engines.stacked import threads
from fedsim.engines.stacked.threads import VARIABLES, one_thread


@pytest.fixture
def unsaid(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("unsaid")
def test_libraries_take_one_thread_and_then_as_many_as_before() -> None:
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        with one_thread():
            assert torch.get_num_threads() == 1
            assert [library.number() for library in threads._openblas()] in ([], [1])
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


@pytest.mark.usefixtures("unsaid")
def test_an_error_gives_the_threads_back(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = [4]
    fake = threads._Threads(lambda: counts[-1], counts.append)
    monkeypatch.setattr(threads, "_openblas", lambda: (fake,))
    with pytest.raises(KeyError), one_thread():
        raise KeyError
    assert counts == [4, 1, 4]


def test_a_number_in_the_environment_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    counts = [2]
    fake = threads._Threads(lambda: counts[-1], counts.append)
    monkeypatch.setattr(threads, "_openblas", lambda: (fake,))
    with one_thread():
        pass
    assert counts == [2]


def test_the_library_of_numpys_wheels_is_found() -> None:
    dependencies = np.show_config("dicts")["Build Dependencies"]
    if "scipy-openblas" not in dependencies["blas"]["name"]:
        pytest.skip("NumPy was built otherwise")
    assert threads._openblas()
