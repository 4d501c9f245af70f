"""Ctrl-C is heard, but never in the middle of a commit."""

import signal

import pytest

from fedcore.interruption import Interruption
from fedsim.interrupts import Interrupts
from tests.served import until


def test_an_interrupt_waits_for_the_end_of_the_block() -> None:
    done: list[str] = []

    def commit(interrupts: Interrupts) -> None:
        with interrupts.held():
            signal.raise_signal(signal.SIGINT)
            done.append("the commit")
        done.append("what follows")

    with Interrupts() as interrupts, pytest.raises(KeyboardInterrupt):
        commit(interrupts)
    assert done == ["the commit"]


def test_outside_of_blocks_it_is_heard_at_once_and_by_whoever_listened() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        with Interrupts() as interrupts:
            signal.raise_signal(signal.SIGINT)
            with interrupts.held():
                signal.raise_signal(signal.SIGINT)
                assert len(heard) == 1
            assert len(heard) == 2
        signal.raise_signal(signal.SIGINT)
        assert len(heard) == 3
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_error_in_a_block_is_not_hidden() -> None:
    with Interrupts() as interrupts:
        with pytest.raises(ValueError, match="mine"), interrupts.held():
            raise ValueError("mine")
        with interrupts.held():
            pass


def test_a_signal_that_is_to_be_ignored_is_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interrupts() as interrupts, interrupts.held():
            signal.raise_signal(signal.SIGINT)
            assert not interrupts.came
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_every_signal_that_ends_a_process_waits_where_somebody_handles_it() -> None:
    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    def commit(interrupts: Interrupts) -> None:
        with interrupts.held():
            signal.raise_signal(signal.SIGTERM)
            done.append("the commit")
        done.append("what follows")

    before = signal.signal(signal.SIGTERM, stop)
    done: list[str] = []
    try:
        with Interrupts() as interrupts, pytest.raises(Interruption):
            commit(interrupts)
        assert done == ["the commit"]
        assert signal.getsignal(signal.SIGTERM) is stop
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_interrupt_that_waits_long_says_so(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fedsim.interrupts._PATIENCE", 0.0)

    def says() -> bool:
        return "interrupted; waits for the tasks" in capfd.readouterr().err

    def train_long(interrupts: Interrupts) -> None:
        with interrupts.held():
            signal.raise_signal(signal.SIGINT)
            until(says, "it says what it waits for")

    with Interrupts() as interrupts, pytest.raises(Interruption):
        train_long(interrupts)


def test_an_interrupt_that_was_delayed_is_heard_once_and_waits_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    heard: list[int] = []
    monkeypatch.setattr("fedsim.interrupts._PATIENCE", 0.05)
    monkeypatch.setattr(
        "fedsim.interrupts._say_what_it_waits_for", lambda: said.append("it waits")
    )
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        with Interrupts() as interrupts:
            with interrupts.held():
                signal.raise_signal(signal.SIGINT)
                patience = interrupts._patience
            assert heard == [signal.SIGINT]
            with interrupts.held():
                pass
            assert heard == [signal.SIGINT]
            assert patience is not None
            patience.join()  # it has been cancelled, or it would speak now
            assert not said
    finally:
        signal.signal(signal.SIGINT, before)
