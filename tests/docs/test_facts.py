"""What the docs say of codes, messages, formats and settings is what the code has."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from fedwire.v1 import federation_pb2 as pb

import latecomer
from docs import generate
from fedcore.algorithm import AlgorithmConfig
from fedcore.config import Method, kind_of
from fedcore.payloads import formats
from fedrun.cli.exit_codes import EXIT_CODES, exit_code
from fedrun.config import FederationConfig, parse_config
from tests.docs.pages import PAGES, ROOT, prose

DOCS = ROOT / "docs"


def _read(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def _chapter(text: str, heading: str) -> str:
    return text.split(f"\n## {heading}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_has_a_place_that_was_left_to_fill(page: Path) -> None:
    assert not re.findall(r"@@\w+@@", page.read_text(encoding="utf-8"))


# -------------------------------------------------------------------------- exits


def test_the_table_of_exit_codes_is_that_of_the_program() -> None:
    rows = re.findall(
        r"^\| (\d+) \| `(\w+)` \|",
        _chapter(_read("operations.md"), "Exit codes"),
        re.MULTILINE,
    )
    assert [(name, int(status)) for status, name in rows] == [
        (kind.__name__, status) for kind, status in EXIT_CODES
    ]


def test_each_error_ends_with_the_status_of_its_row() -> None:
    for kind, status in EXIT_CODES:
        assert exit_code(kind("why")) == status


# --------------------------------------------------------------------------- names


def test_the_table_of_names_is_what_the_package_has() -> None:
    table = _chapter(_read("user_code.md"), "What `latecomer` has")
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(names) == dir(latecomer)


# --------------------------------------------------------------------------- wire

_MESSAGES = pb.DESCRIPTOR.message_types_by_name
_FRAMES = {"PushFrame", "PullFrame"}  # told by what they hold


def test_every_call_is_in_the_protocol() -> None:
    text = _read("protocol.md")
    for method in pb.DESCRIPTOR.services_by_name["Federation"].methods:
        assert re.search(rf"^### .*\b{method.name}\b", text, re.MULTILINE), method.name


@pytest.mark.parametrize("name", sorted(_MESSAGES))
def test_every_message_and_field_is_in_the_protocol(name: str) -> None:
    text = _read("protocol.md")
    assert f"`{name}`" in text
    if name in _FRAMES:
        return
    for field in _MESSAGES[name].fields:
        assert f"`{field.name}`" in text or f"**{field.name}**" in text, field.name


def test_every_value_of_an_enum_is_in_the_protocol() -> None:
    text = _read("protocol.md")
    enums = [
        *pb.DESCRIPTOR.enum_types_by_name.values(),
        *_MESSAGES["Notice"].enum_types,
    ]
    for enum in enums:
        for value in enum.values:
            if value.name == "KIND_UNSPECIFIED":
                continue  # protobuf wants one; nobody sends it
            assert f"`{value.name}`" in text, value.name


def test_the_table_of_payloads_is_that_of_the_program() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| (\d+) \|",
        _chapter(_read("payloads.md"), "Formats"),
        re.MULTILINE,
    )
    assert {(name, int(code)) for name, code in rows} == {
        (form.name, form.code) for form in formats()
    }


# ------------------------------------------------------------------------- config


PAGES_OF_SETTINGS = generate.pages()
METHODS = [
    (role, method)
    for role in generate.find().roles
    for method in generate.kinds_of(role)
]


def _text_of(role: type[Method], method: type[Method]) -> str:
    return _chapter(PAGES_OF_SETTINGS[generate.page_of(role)], f"`{kind_of(method)}`")


def test_every_role_has_a_page_of_settings() -> None:
    roles = generate.find().roles
    ours = {r for r in Method.__subclasses__() if r.__module__.startswith("fedcore.")}
    assert set(roles) == ours
    assert len(PAGES_OF_SETTINGS) == 1 + len(generate.PAGES) + len(roles)
    listed = re.findall(r"^- \[.*\]\((\w+)\.md\)", PAGES_OF_SETTINGS["index"], re.M)
    assert sorted(["index", *listed]) == sorted(PAGES_OF_SETTINGS)


@pytest.mark.parametrize(("role", "method"), METHODS)
def test_the_page_of_a_role_has_every_kind_with_its_citation(
    role: type[Method], method: type[Method]
) -> None:
    page, kind = PAGES_OF_SETTINGS[generate.page_of(role)], kind_of(method)
    assert page.count(f"\n## `{kind}`\n") == 1
    assert page.count(f"\n| [`{kind}`](#{kind}) | ") == 1
    assert generate._citation(method) in _text_of(role, method)


@pytest.mark.parametrize(("role", "method"), METHODS)
def test_each_field_of_a_method_is_described_once(
    role: type[Method], method: type[Method]
) -> None:
    shared = generate.inherited_fields(method, role)
    page = PAGES_OF_SETTINGS[generate.page_of(role)]
    for name in method.model_fields:
        if name == "kind":
            continue
        assert (f"\n- `{name}` (" in _text_of(role, method)) == (name not in shared)
        if name in shared:
            assert f"\n- `{name}` (" in _chapter(page, "Shared fields")


def test_the_pages_of_settings_have_every_field_of_every_section() -> None:
    headings = {s: place.name for s, place in generate.find().sections.items()}
    for section, name in headings.items():
        [chapter] = [
            _chapter(page, f"`{name}`")
            for page in PAGES_OF_SETTINGS.values()
            if f"\n## `{name}`\n" in page
        ]
        for field in section.model_fields:
            assert f"\n- `{field}` (" in chapter, f"{name}: {field}"
    for field in FederationConfig.model_fields:
        assert f"\n- `{field}` (" in _chapter(
            PAGES_OF_SETTINGS["index"], "Top level"
        ), field


def test_each_field_has_a_description() -> None:
    found = generate.find()
    owners = [
        *found.sections,
        *(m for role in found.roles for m in generate.kinds_of(role)),
    ]
    bare = {
        f"{owner.__name__}.{name}"
        for owner in owners
        for name in owner.model_fields
        if name != "kind" and not generate.description_of(owner, name)
    }
    # A section's class says what it is.
    assert not bare


def _examples(page: str) -> list[dict[str, Any]]:
    found = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [value for each in found if (value := yaml.safe_load(each)) is not None]


def test_each_example_on_the_pages_of_settings_is_a_config() -> None:
    examples = [e for page in PAGES_OF_SETTINGS.values() for e in _examples(page)]
    assert len(examples) > len(generate.kinds_of(AlgorithmConfig))
    for example in examples:
        parse_config(example)
    assert _examples(PAGES_OF_SETTINGS["index"]) == [
        FederationConfig().model_dump(mode="json")
    ]


@pytest.mark.parametrize(("role", "method"), METHODS)
def test_the_example_of_each_method_is_a_config(
    role: type[Method], method: type[Method]
) -> None:
    places = generate.find().roles[role]
    parse_config(generate.example_of(method, places))
    for example in _examples(_text_of(role, method)):
        assert kind_of(method) in yaml.safe_dump(example)


@pytest.mark.parametrize("recipe", generate.kinds_of(AlgorithmConfig), ids=kind_of)
def test_the_yaml_of_a_recipe_is_that_recipe(recipe: type[Method]) -> None:
    """Without what it shows, the defaults of the recipe give the same."""
    for example in _examples(_text_of(AlgorithmConfig, recipe)):
        alone = parse_config({"algorithm": {"kind": kind_of(recipe)}})
        assert parse_config(example).algorithm == alone.algorithm


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (int, "whole number"),
        (float | None, "number or `null`"),
        (tuple[str, ...], "list of text"),
        (FederationConfig.model_fields["seed"].annotation, "whole number"),
    ],
)
def test_types_are_told_in_words(annotation: object, words: str) -> None:
    assert generate.type_of(annotation, []) == words


# -------------------------------------------------------------------------- links


# Those that a repository shows, too.
WRITTEN = [
    *PAGES,
    *DOCS.glob("configuration/*.md"),
    *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    ROOT / "deploy" / "README.md",
    *ROOT.glob("fedsim/templates/*/README.md"),
]
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]*)[^)]*\)")


def _anchors(path: Path) -> set[str]:
    """What the headings of a page are called in links, as repositories do it."""
    text = path.read_text(encoding="utf-8")
    found = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", heading.lower())
        found.add(plain.strip().replace(" ", "-"))
    return found


@pytest.mark.parametrize(
    "path", WRITTEN, ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_links_have_words_and_lead_somewhere(path: Path) -> None:
    """Those of pages that a build makes lead nowhere in a fresh clone."""
    for words, target in _LINK.findall(prose(path)):
        assert words.strip(), f"{path}: a link to {target} without words"
        if target.startswith(("http:", "https:")):
            continue
        name, _, anchor = target.partition("#")
        place = (path.parent / name).resolve() if name else path
        assert place.exists(), f"{path}: {target}"
        assert not anchor or anchor in _anchors(place), f"{path}: {target}"


@pytest.mark.parametrize(
    "path", WRITTEN, ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_a_page_needs_no_program_to_be_read(path: Path) -> None:
    """No directive, role or definition list, which a repository shows as they are."""
    text = path.read_text(encoding="utf-8")
    assert not re.findall(r"^(?:```|:::)\{.*|^: .*", text, re.MULTILINE)
    assert not re.findall(r"\{\w+\}`", prose(path))


def test_the_pages_of_settings_are_those_of_the_program() -> None:
    written = {
        page.stem: page.read_text(encoding="utf-8")
        for page in DOCS.glob("configuration/*.md")
    }
    assert written == PAGES_OF_SETTINGS, "make configuration"


def test_the_api_reference_is_the_docstrings() -> None:
    pytest.importorskip("torch")
    from docs import reference

    written = (DOCS / "api.md").read_text(encoding="utf-8")
    assert written == reference.page(), "make configuration"


def test_the_table_of_metrics_is_that_of_the_program() -> None:
    text = _read("operations.md")
    assert f"{generate.metrics_table()}<!-- end" in text, "make configuration"
    assert generate.with_metrics(text) == text


def test_every_decision_is_in_the_list() -> None:
    listed = re.findall(
        r"^- \[(\d+)\. (.*)\]\((.*)\): \S.*\.$", _read("decisions/index.md"), re.M
    )
    pages = sorted((DOCS / "decisions").glob("[0-9]*.md"))
    assert listed == [
        (
            str(int(page.name[:4])),
            page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# "),
            page.name,
        )
        for page in pages
    ]


# Decisions and the table of mutants name files as they were.
OF_TODAY = [p for p in PAGES if p.parent == DOCS and p.name != "benchmarks.md"]


@pytest.mark.parametrize("page", OF_TODAY, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"`((?:fed\w+|protos|tests|tools)/[\w./-]+)`", text):
        assert (ROOT / name).exists(), name


def test_the_table_of_concepts_names_classes_where_they_are() -> None:
    found = re.findall(
        r"`(\w+)`(?: and `(\w+)`)? in `(fedcore/[\w/.]+)`", _read("concepts.md")
    )
    assert len(found) > 4
    for *names, place in found:
        path = ROOT / place
        files = path.glob("*.py") if path.is_dir() else [path]
        source = "".join(file.read_text(encoding="utf-8") for file in files)
        for name in filter(None, names):
            assert f"\nclass {name}" in source, name
