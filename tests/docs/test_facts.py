"""What the docs say of codes, messages, formats and settings is what the code has."""

import re
from pathlib import Path

import pytest
import yaml
from fedwire.v1 import federation_pb2 as pb

import latecomer
from docs import generate
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


@pytest.fixture(scope="module")
def page() -> str:
    return generate.page()


def test_the_page_of_settings_has_every_kind_with_its_citation(page: str) -> None:
    roles = generate.find().roles
    ours = {r for r in Method.__subclasses__() if r.__module__.startswith("fedcore.")}
    assert set(roles) == ours
    for role in roles:
        assert generate.kinds_of(role)
        for method in generate.kinds_of(role):
            heading = f"\n### {role.role} `{kind_of(method)}`\n"
            assert page.count(heading) == 1, heading
            assert generate._citation(method) in page


def test_the_page_of_settings_has_every_field_of_every_section(page: str) -> None:
    headings = {s: f"`{p.name}`" for s, p in generate.find().sections.items()}
    headings[FederationConfig] = "Top"
    for section, name in headings.items():
        chapter = _chapter(page, name)
        for field in section.model_fields:
            assert f"\n| `{field}` | " in chapter, f"{name}: {field}"


@pytest.mark.slow
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


def test_each_example_on_the_page_of_settings_is_a_config(page: str) -> None:
    examples = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    roles = generate.find().roles
    assert len(examples) == 1 + sum(len(generate.kinds_of(role)) for role in roles)
    for example in examples:
        parse_config(yaml.safe_load(example))
    whole = FederationConfig().model_dump(mode="json")
    assert yaml.safe_load(examples[0]) == whole


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
    DOCS / "configuration.md",
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


def test_the_page_of_settings_is_that_of_the_program(page: str) -> None:
    written = (DOCS / "configuration.md").read_text(encoding="utf-8")
    assert written == page, "make configuration"


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
        r"^(\d+)\. \[(.*)\]\((.*)\)$", _read("decisions/index.md"), re.M
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
