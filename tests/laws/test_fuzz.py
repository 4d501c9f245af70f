"""The fuzz loop for as long as a test may take; ``make fuzz`` goes on for longer."""

import random

import pytest

from fedcore import payloads
from tests.laws import fuzz
from tests.laws.fuzz import LAYOUTS, Message, corpus, mutated, read


@pytest.mark.slow
def test_mutated_messages_are_vectors_or_errors_in_little_time_and_memory() -> None:
    tally = fuzz.fuzz(20_000, seed=0)
    assert not tally.failures, "\n".join(tally.failures)
    assert tally.payloads == 20_000
    assert {form.name for form in payloads.formats()} == set(tally.vectors)


def test_every_format_has_messages_to_spoil_and_they_are_valid() -> None:
    for name, messages in corpus(LAYOUTS).items():
        assert messages, name
        assert all(read(message) for message in messages), name


def test_a_seed_always_spoils_messages_alike() -> None:
    valid = corpus([(7, 4)])
    first, second = (
        [mutated(rng, valid, "levels") for _ in range(100)]
        for rng in (random.Random(1), random.Random(1))
    )
    assert first == second
    assert len(set(first)) > 90


def test_a_message_that_breaks_a_promise_is_told_with_its_bytes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(message: Message) -> bool:
        raise IndexError("out of bounds")

    monkeypatch.setattr(fuzz, "read", broken)
    assert fuzz.main(["--payloads", "3", "--seed", "5"]) == 1
    told = capsys.readouterr().out
    assert told.count("seed 5, payload") == 3
    assert "IndexError: out of bounds: " in told
    assert "3 failures" in told
