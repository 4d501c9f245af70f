"""Proofs: what nobody but the server can make."""

from itertools import combinations

import pytest

from fedcore.proofs import Authenticator
from fedcore.protocol import Verdict

E0, E1 = "0" * 15 + "1", "0" * 15 + "2"
ONE, TWO = Authenticator(b"1" * 16), Authenticator(b"2" * 16)


def test_a_proof_is_a_number_of_64_bits_and_always_the_same() -> None:
    assert 0 < ONE.version(E0, 3) < 2**64
    assert ONE.version(E0, 3) == Authenticator(b"1" * 16).version(E0, 3)


def test_no_two_things_have_the_same_proof() -> None:
    ok, stale = Verdict.ACCEPTED, Verdict.REJECTED_STALE
    made = [
        ONE.version(E0, 1),
        ONE.version(E0, 11),
        ONE.version(E1, 1),
        ONE.departure(E0),
        ONE.departure(E1),
        ONE.departure(f"{E0}\0{1}"),
        ONE.verdict(E0, "a", 1, ok),
        ONE.verdict(E0, "a", 11, ok),
        ONE.verdict(E0, "a", 1, stale),
        ONE.verdict(E0, "b", 1, ok),
        ONE.verdict(E1, "a", 1, ok),
        ONE.verdict(E0, "accepted\0a", 1, ok),
        ONE.verdict(E0, "", 1, ok),
        TWO.version(E0, 1),
        TWO.departure(E0),
        TWO.verdict(E0, "a", 1, ok),
    ]
    assert all(a != b for a, b in combinations(made, 2))


def test_only_its_own_proof_is_confirmed() -> None:
    made = ONE.version(E0, 1)
    assert ONE.confirms(made, made)
    assert not ONE.confirms(made ^ 1, made)
    assert not ONE.confirms(0, made)


def test_without_a_secret_there_are_no_proofs() -> None:
    none = Authenticator()
    made = none.version(E0, 1)
    assert made == 0
    assert not none.confirms(made, made)


def test_a_secret_has_sixteen_bytes() -> None:
    with pytest.raises(ValueError, match="16 bytes, got 3"):
        Authenticator(b"abc")


def test_any_text_may_be_in_a_proof() -> None:
    assert ONE.verdict(E0, "\ud800é\0", 1, Verdict.ACCEPTED)
