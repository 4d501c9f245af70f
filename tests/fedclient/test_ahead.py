"""Steps that are taken while a message travels."""

import threading
from collections.abc import Callable

import numpy as np
import pytest

from fedclient.work.ahead import Ahead
from fedcore.errors import StoppedError, UserCodeError
from fedcore.participant import Start, Trained

START = Start(kept=np.zeros(2), seq=2, work=1.0, samples=None)
DONE = Trained(np.ones(2, np.float32), samples=1)


def test_steps_are_used_once_and_only_from_their_start() -> None:
    ahead = Ahead()
    assert ahead.result(lambda start: True) is None
    ahead.begin(START, lambda goes_on: DONE)
    found = ahead.result(lambda start: start is START)
    assert found is not None
    assert found[0] is DONE
    assert ahead.result(lambda start: True) is None
    ahead.begin(START, lambda goes_on: DONE)
    assert ahead.result(lambda start: False) is None
    assert ahead.result(lambda start: True) is None


def test_what_raises_in_the_steps_is_raised_where_they_are_used() -> None:
    def fail(goes_on: Callable[[], bool]) -> Trained:
        raise UserCodeError("training raised")

    ahead = Ahead()
    ahead.begin(START, fail)
    with pytest.raises(UserCodeError, match="training raised"):
        ahead.result(lambda start: True)
    ahead.begin(START, fail)
    assert ahead.result(lambda start: False) is None  # nobody needs them


def test_steps_that_nobody_waits_for_are_stopped() -> None:
    began = threading.Event()

    def for_ever(goes_on: Callable[[], bool]) -> Trained:
        began.set()
        while goes_on():
            pass
        raise StoppedError("stopped")

    ahead = Ahead()
    ahead.begin(START, for_ever)
    began.wait()
    ahead.stop()
    assert ahead.result(lambda start: True) is None


def test_code_that_exits_does_so_where_its_steps_are_used() -> None:
    def leave(goes_on: Callable[[], bool]) -> Trained:
        raise SystemExit(3)

    ahead = Ahead()
    ahead.begin(START, leave)
    with pytest.raises(SystemExit):
        ahead.result(lambda start: True)


def test_the_time_of_steps_is_that_of_taking_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter([10.0, 13.0])
    monkeypatch.setattr("fedclient.work.ahead.time.monotonic", lambda: next(clock))
    ahead = Ahead()
    ahead.begin(START, lambda goes_on: DONE)
    found = ahead.result(lambda start: True)
    monkeypatch.undo()
    assert found == (DONE, 10.0, 3.0)
