"""YAML of strangers: plain data, or one sentence with a line."""

import math
from typing import Any

import pytest
import yaml

from fedcore.errors import ConfigError
from fedrun.config.load import change_config, parse_config
from fedrun.config.yaml_loader import MOST_LEVELS, MOST_VALUES, read_yaml
from fedrun.config.yaml_text import mapping_of
from tests.patience import must_end


def laughs(inner: str, kind: str) -> str:
    """Ten aliases of ten aliases of ten aliases..."""
    lines = [f"a: &a {inner}"]
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        many = ", ".join([f"*{before}"] * 10)
        lines.append(f"{name}: &{name} {kind.format(many)}")
    return "\n".join(lines)


REFUSED = {
    laughs("[x, y]", "[{}]"): "not YAML: more than 100,000 values",
    laughs("{k: v}", "{{<<: [{}]}}"): "not YAML: more than 100,000 values",
    "a: &a [*a]": "1: not YAML: *a is a part of itself",
    "a: &a {b: *a}": "1: not YAML: *a is a part of itself",
    "x: 1\na: *b": "2: not YAML: found undefined alias 'b'",
    "[" * 100_000: f"1: not YAML: more than {MOST_LEVELS} lists and sections",
    "{a: " * 5_000: f"1: not YAML: more than {MOST_LEVELS} lists and sections",
    "\n".join(" " * n + "a:" for n in range(500)): f"{MOST_LEVELS}: not YAML: more",
    "- " * 5_000 + "x": f"1: not YAML: more than {MOST_LEVELS} lists and sections",
    f"a: [{'b, ' * MOST_VALUES}]": f"1: not YAML: more than {MOST_VALUES:,} values",
    f"a: {'1' * 5_000}": "1: not YAML: 1111",
    f"a: 0x{'f' * 5_000}": "1: not YAML: 0xff",
    f"a: {'1' * 5_000}.5": "1: not YAML: 1111",
    "? [a]\n: b": "1: not YAML: a key is a text, and no list and no section",
    "x: 1\n? {a: b}\n: c": "2: not YAML: a key is a text, and no list and no section",
    "1: a\n'1': b": "2: not YAML: '1' is there twice",
    "~: a\n~: b": "2: not YAML: '~' is there twice",
    'a: "\\UFFFFFFFF"': "not YAML: an impossible value",
    'a: "\\0"': "1: not YAML: a text holds a character that no text can have",
    'a: "\\ud800"': "1: not YAML: a text holds a character that no text can have",
    f"%YAML 1.{'9' * 5_000}\n---\na: b": "not YAML: an impossible value",
    "a: !!python/object:os.system x": "1: not YAML: could not determine a constructor",
    "a: !!binary aGk=": "1: not YAML: could not determine a constructor",
    "a: !!timestamp 2020-13-45": "1: not YAML: could not determine a constructor",
    "a: !!set {x}": "1: not YAML: could not determine a constructor",
    "a: !!bool maybe": "not YAML: an impossible value: 'maybe'",
    "a: !!int many": "not YAML: an impossible value",
    "!!map [1]": "1: not YAML: expected a mapping node, but found sequence",
    "!" * 5_000: "not YAML: could not determine a constructor",
    "\ta: 1": "1: not YAML: found character '\\t' that cannot start any token",
    "a: \x00": "not YAML: unacceptable character #x0000",
    "a\n---\nb": "2: not YAML: but found another document",
    "<<: 1": "1: not YAML: expected a mapping or list of mappings for merging",
    "- a": "expected keys and values, found list",
    "7": "expected keys and values, found int",
}


@pytest.mark.parametrize("text", REFUSED, ids=[text[:20] for text in REFUSED])
def test_what_is_no_plain_data_is_one_short_sentence(text: str) -> None:
    with must_end(20), pytest.raises(ConfigError) as caught:
        mapping_of(text, "fed.yaml")
    said = str(caught.value)
    assert said.startswith("fed.yaml:")
    assert REFUSED[text] in said
    assert len(said) < 500
    assert "\n" not in said


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2020-01-01", "2020-01-01"),
        ("2020-13-45", "2020-13-45"),
        ("2020-01-01T10:00:00Z", "2020-01-01T10:00:00Z"),
        ("22:00", "22:00"),
        ("1:30.5", "1:30.5"),
        ("=", "="),
        ("~", None),
        ("no", False),
        ("-0x1F", -31),
        ("0b101", 5),
        ("017", 15),
        ("1_000", 1000),
        ("-1.5e-3", -0.0015),
        (".5", 0.5),
        ("-.inf", -math.inf),
        ("1e5", "1e5"),
        ("\ufeffa", "a"),
        ("{1: a, yes: b, ~: c, 2.5: d}", {"1": "a", "yes": "b", "~": "c", "2.5": "d"}),
        ("{a: &x [1], b: *x}", {"a": [1], "b": [1]}),
        ("{a: &x {k: 1}, b: {<<: *x, l: 2}}", {"a": {"k": 1}, "b": {"k": 1, "l": 2}}),
        ("", None),
    ],
)
def test_plain_data_are_texts_numbers_lists_and_sections(text: str, value: Any) -> None:
    assert read_yaml(text) == value


def test_what_is_not_a_number_is_one_and_a_config_refuses_it() -> None:
    assert math.isnan(read_yaml(".nan"))
    with pytest.raises(ConfigError, match=r"stop\.seconds: .*finite number"):
        parse_config({"stop": {"seconds": math.nan}})


def test_what_other_programs_write_is_read() -> None:
    told = {"a": [1, 2.5, None, True], "date": "2020-01-01", "time": "22:00", "1": "x"}
    assert read_yaml(yaml.safe_dump(told)) == told


@pytest.mark.parametrize(
    "value",
    [
        *(
            pytest.param(text, marks=pytest.mark.slow if "b, b" in text else ())
            for text in REFUSED
            if "\n" not in text
        ),
        *("x" * 10_000, '"\\x00"', "[[1"),
    ],
    ids=lambda value: value[:20],
)
def test_a_setting_of_the_command_line_is_data_or_a_short_sentence(value: str) -> None:
    for name in ("seed", "algorithm.buffer", "simulate.args.x", "app.y", value):
        raw: dict[str, Any] = {"app": "a:b"}
        said = ""
        try:
            with must_end(20):
                change_config(raw, f"{name}={value}")
                parse_config(raw)
        except ConfigError as error:
            said = str(error)
        assert len(said) < 2_000
        assert "\n" not in said


def test_a_thousand_mistakes_are_told_by_the_first_ones() -> None:
    text = "\n".join(f"a{n}: {n}" for n in range(1_000))
    with must_end(20), pytest.raises(ConfigError) as caught:
        parse_config(mapping_of(text, "fed.yaml"), "fed.yaml", text)
    first, *others, last = str(caught.value).splitlines()
    assert first.startswith("fed.yaml:1: a0: unknown key; ")
    assert len(others) == 19
    assert last == "fed.yaml: and 980 more mistakes"


def test_a_long_value_is_told_by_its_beginning() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config({"seed": "x" * 10_000, "algorithm": {"kind": "y" * 10_000}})
    assert len(str(caught.value)) < 3_000
