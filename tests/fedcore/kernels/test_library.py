"""Which kernels are taken, and what they refuse."""

import contextlib
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

from fedcore import kernels
from fedcore.errors import ConfigError
from fedcore.kernels import library
from tests.fedcore.kernels.both import COMPILED, needed, raw

TELL = "from fedcore import kernels; print(kernels.in_use())"


def told(choice: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", TELL],
        env={"LATECOMER_KERNELS": choice, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.strip()


@pytest.mark.processes
def test_the_environment_chooses_numpy() -> None:
    assert told("numpy") == "numpy"
    assert told("") == ("numpy" if COMPILED is None else "compiled")


def test_an_unknown_choice_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(ConfigError, match="'cython', expected 'numpy', 'compiled'"):
        library.load("cython")
    assert library.load("numpy") is None


@pytest.mark.parametrize("choice", ["", "compiled"])
def test_where_nothing_was_compiled_numpy_takes_its_place_unless_it_may_not(
    choice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fedcore.kernels._compiled", None)
    if choice:
        with pytest.raises(
            ConfigError, match="but none fit: install the package with a C"
        ):
            library.load(choice)
    else:
        assert library.load(choice) is None


def array(count: int | tuple[int, int], dtype: str = "f4") -> Any:
    return np.zeros(count, dtype)


@needed
def test_a_module_of_an_older_install_is_left_alone() -> None:
    newer = library.INTERFACE + 1
    assert library.load("", interface=newer) is None
    with pytest.raises(ConfigError, match="install the package with a C"):
        library.load("compiled", interface=newer)


@needed
@pytest.mark.parametrize(
    "x",
    [
        np.ones(8),
        np.ones(8, np.float16),
        np.ones(16, np.float32)[::2],
        np.ones((4, 4), np.float32).T,
        np.ones(8, ">f4"),
        np.frombuffer(bytes(33), np.float32, offset=1),
        [1.0],
        None,
    ],
    ids=lambda x: str(getattr(x, "dtype", x)),
)
def test_other_arrays_go_the_other_way(x: Any) -> None:
    assert library.find_compiled(x) is None


@needed
def test_what_does_not_lie_in_one_piece_gives_the_same() -> None:
    x_ND = np.random.default_rng(0).standard_normal((6, 40)).astype(np.float32)
    spread = np.repeat(x_ND, 2, axis=1)[:, ::2]
    assert library.find_compiled(spread) is None
    seeds = np.arange(6, dtype=np.uint64)
    for call in (
        kernels.absolute_sums,
        lambda x: kernels.positive(x, seeds),
        lambda x: kernels.quantise(x, 7, 127, "norm", seeds),
    ):
        assert raw(call(spread)) == raw(call(x_ND))


@needed
@pytest.mark.parametrize(
    "other_ND",
    [
        np.ones((2, 12), np.float32)[:, ::2],
        np.ones((2, 6), ">f4"),
        np.ones((2, 6), np.float64),
        np.ones((2, 6), np.int32),
        np.frombuffer(bytes(49), np.uint8)[1:].view(np.float32).reshape(2, 6),
    ],
    ids=["spread", "swapped", "doubles", "integers", "unaligned"],
)
def test_rows_of_other_kinds_are_added_as_well(other_ND: Any) -> None:
    assert COMPILED is not None
    rows_ND = np.stack([np.ones(6, np.float32), np.full(6, 3, np.float32)])
    rows = [(rows_ND, 0), (other_ND, 1), (rows_ND, 1)]
    assert not COMPILED.add_rows(tuple(rows), np.ones(3, np.float32), array(6))
    out_D = np.arange(6, dtype=np.float32)
    kernels.add_rows(rows, [1.0, 0.5, 2.0], out_D)
    assert np.array_equal(
        out_D, np.arange(6) + 7 + 0.5 * other_ND[1].astype(np.float32)
    )


@needed
@pytest.mark.parametrize(
    "row",
    [
        (array((2, 5)), 0),
        (array((2, 7)), 0),
        (array((2, 6)), 2),
        (array((2, 6)), -1),
        (array((2, 6)), 2**70),
        (array((2, 6)), "0"),
        (array((2, 6)), 0, 0),
        (array(6), 0),
        (b"abcd" * 6, 0),
        (None, 0),
        [array((2, 6)), 0],
        None,
    ],
)
def test_what_is_no_such_row_is_not_added(row: Any) -> None:
    assert COMPILED is not None
    out_D = array(6)
    rows = ((array((1, 6)) + 1, 0), row)
    assert not COMPILED.add_rows(rows, array(2) + 1, out_D)
    assert not out_D.any()


@needed
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("absolute_sums", (array(7), array(2, "f8"))),
        ("absolute_sums", (array(7), array(0, "f8"))),
        ("absolute_sums", (array(7).view("u1")[1:], array(1, "f8"))),
        ("absolute_sums", (array(7), array(8, "u1")[1:])),
        ("add_rows", (((array((1, 6)), 0),), array(2), array(6))),
        ("add_rows", ((), array(1), array(6))),
        ("positive", (array(6), array(4, "u8"), array(6, "u1"))),
        ("positive", (array(6), array(1, "u8"), array(5, "u1"))),
        ("put_signs", (array(6, "u1"), array(2, "i8"), array(2), array(6))),
        ("put_signs", (array(6, "u1"), np.array([6]), array(1), array(7))),
        ("put_signs", (array(6, "u1"), np.array([6, 0]), array(1), array(6))),
        ("put_signs", (array(6, "u1"), np.array([7, -1]), array(2), array(6))),
        ("put_signs", (array(6, "u1"), np.array([2**62] * 4), array(4), array(6))),
        ("add_signs", (array(0, "u1"), np.array([-1]), array(1), array(0))),
        ("quantise", (array(6), 1, 4, 7, 0, None, array(6, "i1"), array(1))),
        ("quantise", (array(6), 1, 4, 7, 0, None, array(5, "i1"), array(2))),
        ("quantise", (array(6), 4, 4, 7, 0, None, array(6, "i1"), array(4))),
        ("quantise", (array(6), 0, 4, 7, 0, None, array(6, "i1"), array(2))),
        ("quantise", (array(6), 1, 0, 7, 0, None, array(6, "i1"), array(2))),
        ("quantise", (array(6), 1, 4, 128, 0, None, array(6, "i1"), array(2))),
        ("quantise", (array(6), 1, 4, 7, 2, None, array(6, "i1"), array(2))),
        ("quantise", (array(6), 2, 4, 7, 0, array(1, "u8"), array(6, "i1"), array(2))),
        ("put_levels", (array(6, "i1"), 4, array(1), None, array(6))),
        ("put_levels", (array(6, "i1"), 4, array(2), 1.0, array(5))),
        ("put_levels", (array(6, "i1"), 0, array(2), None, array(6))),
        ("put_levels", (array(6, "i1"), -1, array(2), None, array(6))),
        ("above", (array(6, "u1"), 0, array(1, "i8"))),
    ],
)
def test_sizes_that_do_not_agree_are_refused(
    name: str, arguments: tuple[Any, ...]
) -> None:
    with pytest.raises(ValueError, match="expected"):
        getattr(COMPILED, name)(*arguments)


@needed
def test_sizes_that_another_thread_changes_meanwhile_are_harmless() -> None:
    """The checks have passed by then; an overrun ends this process, or spoils more."""
    parts, size = 200, 2_000
    room = np.zeros(2 * parts * size, np.float32)
    out_D, after_D = np.split(room, 2)
    sizes_T, over = array(parts, "i8"), threading.Event()

    def change() -> None:
        while not over.is_set():
            sizes_T[parts // 2 :] = size
            sizes_T[parts // 2 :] = parts * size

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(200):
            sizes_T[:] = size
            with contextlib.suppress(ValueError):
                kernels.put_signs(
                    array(parts * size, "?"), np.ones(parts, "f4"), sizes_T, out_D
                )
    finally:
        over.set()
        thread.join()
    assert not after_D.any()


@needed
def test_memory_that_may_not_be_written_is_refused() -> None:
    sums = getattr(COMPILED, "absolute_sums", None)
    assert sums
    fixed = np.zeros(1)
    fixed.flags.writeable = False
    for x, out in ((array(3), fixed), (array(6)[::2], np.zeros(1))):
        with pytest.raises((BufferError, ValueError)):
            sums(x, out)
