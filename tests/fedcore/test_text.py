"""What may be shown of a peer's words, and which machine an address names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore.hosts import is_loopback
from fedcore.text import is_printable, printable, wrong_metrics


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
