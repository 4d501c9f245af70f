"""YAML of the user: files, and values as ``--set`` takes them."""

from pathlib import Path

import numpy as np
import pytest

from fedcore.config import Config, Count
from fedcore.errors import ConfigError
from fedrun.config.yaml_text import changes_of, mapping_of, text_of, validate


class Device(Config):
    """A model to check."""

    cores: Count = 1


def test_a_text_of_keys_and_values_is_read() -> None:
    assert mapping_of("cores: 4", "d.yaml") == {"cores": 4}
    assert mapping_of("", "d.yaml") == {}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("cores: 1\ncores: 2", "d.yaml:2: not YAML: 'cores' is there twice"),
        ("cores: [", "d.yaml:1: not YAML: "),
        ("- 1", "d.yaml: expected a device, found list"),
        ("[]", "d.yaml: expected a device, found list"),
    ],
)
def test_other_texts_get_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        mapping_of(text, "d.yaml", "a device")
    assert str(caught.value).startswith(sentence)


def test_a_mistake_is_told_with_its_line() -> None:
    text = "\ncroes: 2"
    with pytest.raises(ConfigError, match=r"^d\.yaml:2: croes: unknown key; did you"):
        validate(Device, mapping_of(text, "d.yaml"), "d.yaml", text)


def test_a_file_that_is_none_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        text_of(tmp_path / "none")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not a text in UTF-8"):
        text_of(tmp_path / "bytes")


def test_values_become_changes() -> None:
    given = {"a.b": 8, "kind": "ef21", "rates": [0.1, 0.2], "x": np.float64(0.5)}
    assert changes_of(given) == ["a.b=8", "kind=ef21", "rates=[0.1, 0.2]", "x=0.5"]
    assert changes_of(None) == []
