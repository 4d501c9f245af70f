"""Things are done when they are due, in order."""

import math

from tools.agenda import Agenda


def test_what_is_due_is_done_in_order_and_once() -> None:
    agenda, done = Agenda(), list[str]()
    agenda.add(3, lambda: done.append("c"))
    agenda.add(1, lambda: done.append("a"))
    agenda.add(1, lambda: done.append("b"))
    agenda.do(0.9)
    assert done == []
    agenda.do(2)
    assert done == ["a", "b"]
    agenda.do(2)
    assert done == ["a", "b"]
    assert agenda
    agenda.do(3)
    assert done == ["a", "b", "c"]
    assert not agenda


def test_what_a_call_adds_is_done_at_once_if_it_is_due() -> None:
    agenda, done = Agenda(), list[str]()
    agenda.add(1, lambda: agenda.add(2, lambda: done.append("soon")))
    agenda.add(1, lambda: agenda.add(math.inf, lambda: done.append("at the end")))
    agenda.do(2)
    assert done == ["soon"]
    agenda.do(math.inf)
    assert done == ["soon", "at the end"]
