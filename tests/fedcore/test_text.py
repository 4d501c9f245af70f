"""What may be shown of a peer's words, and which machine an address names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore.hosts import is_loopback, is_this_machine
from fedcore.text import (
    decimals,
    format_metrics,
    is_printable,
    printable,
    wrong_metrics,
)


@given(st.text())
def test_what_is_shown_is_printable(text: str) -> None:
    assert is_printable(printable(text))
    assert is_printable(printable(text, lines=True), lines=True)
    if text.isprintable():
        assert printable(text) == text


def test_escapes_tell_what_was_there() -> None:
    assert printable("a\x1b[2J\nb\u202e") == r"a\x1b[2J\nb\u202e"
    assert printable("a\x1b\n\tb", lines=True) == "a\\x1b\n\tb"


def test_metrics_have_names_that_can_be_shown() -> None:
    assert wrong_metrics({}) == wrong_metrics(["loss", "accuracy of \N{SNOWMAN}"]) == ""
    assert "the limit is 64" in wrong_metrics([str(n) for n in range(65)])
    assert "the limit is 64" in wrong_metrics(["x" * 65])
    assert "printable" in wrong_metrics(["a\n"])


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("LOCALHOST", True),
        ("localhost.", True),
        ("127.1", True),
        ("127.0.1", True),
        ("2130706433", True),
        ("0x7f.1", True),
        ("0177.0.0.01", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:10.0.0.1", False),
        ("10.1", False),
        ("127.0.0.256", False),
        ("127.0.0.0.1", False),
        ("127.x", False),
        ("127..1", False),
        ("0x", False),
        ("4294967296", False),
        ("9" * 5000, False),
        ("127.1.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("127.evil.example", False),
        ("localhost.evil.example", False),
        ("10.0.0.1", False),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
    ],
)
def test_only_this_machine_is_this_machine(host: str, here: bool) -> None:
    assert is_loopback(host) is here


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("127.1", True),
        ("0.0.0.0", True),
        ("0", True),
        ("::", True),
        ("::ffff:0.0.0.0", True),
        ("app.localhost", True),
        ("app.localhost.", True),
        ("mylocalhost", False),
        ("app.localhost.example", False),
        ("10.0.0.1", False),
        ("", False),
    ],
)
def test_a_connection_to_any_address_ends_here(host: str, here: bool) -> None:
    assert is_this_machine(host) is here


def test_a_huge_metric_is_no_row_of_digits() -> None:
    assert format_metrics({"loss": 2.590746918e24}, 9) == "loss 2.5907e+24, n = 9"
    assert [decimals(value, 3) for value in (0.1234, -12.0, float("nan"))] == [
        "0.123", "-12.000", "nan",
    ]  # fmt: skip
