"""The frame of studies: it makes a command, a function, a page and files of each.

A study is a class of settings with a method ``perform``; what that returns has a method
``findings``. A field is an option of the command, an argument of the Python function
and a line of both helps, which is the docstring below it::

    class Dice(Study["Throws"]):
        \"\"\"Tell how often each side of a die comes up.\"\"\"

        throws: Count = 100
        \"\"\"How often it is thrown.\"\"\"

        def perform(self, console: Console) -> Steps["Throws"]:
            yield Phase("throws", self.throws)
            ...

One line in ``fedstudies/__init__.py`` registers it.
"""

import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, fields
from functools import cache
from pathlib import Path
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    Self,
    TypeAlias,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from rich.console import Console

from fedcore.config import descriptions
from fedcore.errors import ConfigError
from fedcore.typing import JSON
from fedrun.cli.plain_json import to_json
from fedrun.plain_files import write_text
from fedstudies.tables import Cells, bars, tell
from fedview.report.page import Section, copyable, note, page, plot, text

Found = TypeVar("Found", bound="Outcome")
Found_co = TypeVar("Found_co", bound="Outcome", covariant=True)
QUIET = Console(quiet=True, force_terminal=False)

# ------------------------------------------------------------------- what it has found


class Part(NamedTuple):
    """A part of the findings: a section of the page, and a table on the terminal."""

    title: str
    lead: str = ""
    """What is shown, for the page."""
    table: Cells | None = None
    on_page: Cells | None = None
    """Another table for the page, such as one with all rows."""
    figures: Sequence[tuple[str, Callable[[], Any]]] = ()
    """What each plot shows, in words, and a function that draws it."""
    notes: Sequence[str] = ()
    """Sentences below the table."""
    anchor: str = ""
    """The name of the section in links; empty: the first word of the title."""
    heading: str = ""
    """The line above the table on a terminal; empty: the title."""
    caption: str = ""
    """The line below it."""
    highlighted: int | None = None
    """The number of the row that is shown in green on a terminal."""


class Findings(NamedTuple):
    """The words and numbers of a study, for a terminal, a page and programs."""

    title: str
    """Of the page."""
    heading: str
    """What was examined, in a line."""
    verdict: str
    """The result, without a capital and a full stop; empty: the sentences say it."""
    numbers: JSON
    """Everything as plain data; NaN and infinity become null."""
    parts: Sequence[Part] = ()
    doubts: Sequence[str] = ()
    """What should be known before the result is used."""
    sentences: Sequence[str] = ()
    """What else was found, without full stops: lines below the verdict, and notes in
    the last part of the page; without a verdict, whole sentences at its top."""
    yaml: str | None = None
    """Lines of a config that the user may copy."""
    is_warning: bool = False
    """Whether there is no result that can be used."""
    asides: Sequence[str] = ()
    """Lines for the standard error, such as errors of single runs."""


class Outcome(ABC):
    """The result of :meth:`Study.perform`."""

    @abstractmethod
    def findings(self) -> Findings:
        """Returns what the study says."""

    def as_json(self) -> JSON:
        """Returns all numbers as plain data, as ``--json`` prints them."""
        return self.findings().numbers

    def write_more(self, folder: Path) -> Sequence[str]:
        """Writes other files than page and numbers; returns lines that name them."""
        return ()


# ----------------------------------------------------------------------- how it is run


class Phase(NamedTuple):
    """The study begins with something that takes a while."""

    title: str
    total: int
    """How many steps it has, as far as that is known."""


class Progress(NamedTuple):
    """One or more steps of a phase have ended."""

    steps: int
    last: str
    """Their name or result, beside a bar."""
    line: str = ""
    """The line that is printed where there is no bar; empty: none."""


class Say(NamedTuple):
    """A line for the person who waits, whether there is a bar or not."""

    line: str


Steps: TypeAlias = Generator[Phase | Progress | Say, None, Found]


class Stopped(KeyboardInterrupt):
    """Ctrl-C has ended a study.

    Args:
        found: what is known by then, or why there is nothing to tell.
        kept: what is kept, in words.
        again: words to add to the command for it to continue; None: it would begin
            again.
    """

    def __init__(
        self, found: Outcome | str, kept: str = "", again: Sequence[str] | None = None
    ) -> None:
        super().__init__(kept)
        self.found, self.kept, self.again = found, kept, again


@contextmanager
def stopping(when: Callable[[], Stopped]) -> Iterator[None]:
    """Makes Ctrl-C in the block raise what ``when`` returns, and so keep what is found.

    Raises:
        Stopped: instead of a KeyboardInterrupt.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        raise when() from error


def follow(steps: Steps[Found], console: Console = QUIET) -> Found:
    """Takes all steps of a study; shows bars on a terminal, and lines elsewhere.

    Raises:
        KeyboardInterrupt: at Ctrl-C; it is a :class:`Stopped` if the study keeps what
            it has found.
    """
    shown, task, done, total = bars(console), None, 0, 0
    try:
        while True:
            try:
                step = next(steps)
                match step:
                    case Phase():
                        shown.start()
                        done, total = 0, step.total
                        task = shown.add_task(step.title, total=total, last="")
                    case Progress():
                        done += step.steps
                        if task is not None:
                            whole = max(total, done)
                            shown.update(
                                task, completed=done, total=whole, last=step.last
                            )
                        if step.line and not console.is_terminal:
                            tell(console, step.line)
                    case Say():
                        tell(console, step.line)
            except KeyboardInterrupt as error:
                steps.throw(error)  # where it was not the study that was interrupted
    except StopIteration as end:
        found: Found = end.value
        return found
    finally:
        steps.close()
        if task is not None:
            shown.stop()


# --------------------------------------------------------------------------- a setting


@dataclass(frozen=True)
class Option:
    """The form of a field on a command line, where its type does not tell.

    It stands in the field's annotation: ``Annotated[str, Option("CODEC")]``.
    """

    metavar: str | None = None
    _: KW_ONLY
    read: Callable[[str, Any], Any] | None = None
    """Makes the value of the option's name and its text."""
    read_all: Callable[[str, Sequence[str]], Any] | None = None
    """The same for an option that may be given several times."""
    wanted: str = ""
    """What a caller from Python should give, for errors."""
    also: str = ""
    """Another name for the option."""
    is_argument: bool = False
    """Whether it stands on the command line without a name."""
    is_own: bool = True
    """Whether the frame makes the option; else ``Study.decorators`` may."""
    usual: Callable[[], Any] | None = None
    """Makes the value of a command without the option."""


class Setting(NamedTuple):
    """A field of a study."""

    name: str
    annotation: Any
    kinds: frozenset[Any]
    """The types that it may have, None left out."""
    least: float | None
    """The smallest number that is allowed."""
    option: Option
    default: Any
    """``MISSING`` if it must be given."""
    is_keyword: bool
    doc: str
    of_frame: bool
    """Whether all studies have it, or all that simulate."""

    @property
    def is_repeated(self) -> bool:
        """Whether it may be given several times: a list that is not one text."""
        return self.option.read_all is not None or (
            Sequence in self.kinds and self.option.read is None
        )

    @property
    def typed(self) -> str:
        """The name on a command line, in the singular: ``--uplink`` of ``uplinks``."""
        if self.option.is_argument:
            return self.name.upper()
        one = self.name.removesuffix("s") if self.is_repeated else self.name
        return "--" + one.replace("_", "-")

    @property
    def wanted(self) -> str:
        """The values that are allowed, in words."""
        if self.option.wanted:
            return self.option.wanted
        choices = [each for each in self.kinds if isinstance(each, str)]
        if choices:
            return " or ".join(sorted(choices, reverse=True))
        if self.kinds & {int, float} and self.least is not None:
            return f"{self.least:g} or more"
        if self.is_repeated and self.option.metavar:
            return f"a list of {self.option.metavar.lower()}s"
        for kind, words in _WORDS.items():
            if kind in self.kinds:
                return words
        return "another value"


_WORDS: dict[Any, str] = {
    bool: "True or False",
    Mapping: "values by name",
    Sequence: "a list",
    Path: "a path",
    int: "a whole number",
    float: "a number",
    str: "a text",
}


def _look(annotation: Any) -> tuple[set[Any], list[Any]]:
    """Returns the types, choices and remarks in an annotation, without inner ones."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        kinds, remarks = _look(inner[0])
        for remark in inner[1:]:
            remarks += remark.metadata if isinstance(remark, FieldInfo) else [remark]
        return kinds, remarks
    if origin is Literal:
        return set(inner), []
    if origin in (Union, types.UnionType):
        looked = [_look(each) for each in inner if each is not type(None)]
        return set().union(*(k for k, _ in looked)), [r for _, rs in looked for r in rs]
    return {origin or annotation}, []


def inner_kinds(annotation: Any) -> set[Any]:
    """Returns the types of the items in an annotation of a list."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Sequence:
        return _look(inner[0])[0]
    return set().union(*map(inner_kinds, inner)) if inner else set()


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class Study(ABC, Generic[Found_co]):
    """The settings of a study, checked when it is made; a subclass is a dataclass."""

    _: KW_ONLY
    out: Annotated[str | Path | None, Option(also="-o")] = None
    """The folder for the page and the numbers."""

    examples: ClassVar[Sequence[str]] = ()
    """What may be typed behind ``fedsim NAME``."""
    name: ClassVar[str] = ""
    """Of the command and the files; empty: that of the class."""
    function: ClassVar[str] = ""
    """Of the Python function; empty: that of the command."""
    decorators: ClassVar[Sequence[Callable[[Any], Any]]] = ()
    """Options of fields for which the frame makes none."""
    keeps: ClassVar[bool] = False
    """Whether it always needs its folder, such as for runs that it continues."""
    writes: ClassVar[Literal["folder", "page"]] = "folder"
    """Whether ``out`` is a folder for page and numbers, or the file of the page."""

    def __init_subclass__(cls) -> None:
        """Makes a frozen dataclass of a study."""
        cls.name = vars(cls).get("name") or cls.__name__.lower()
        dataclass(frozen=True)(cls)

    def __post_init__(self) -> None:
        """Checks the types of all settings, and then what the study asks for.

        Raises:
            ConfigError: one of them is something else.
        """
        for setting in settings_of(type(self)):
            value = getattr(self, setting.name)
            if value is None and setting.default is None:
                continue
            try:
                _adapter(setting.annotation).validate_python(value, strict=True)
            except ValidationError as error:
                raise ConfigError(
                    f"{setting.name}: expected {setting.wanted}, got {_brief(value)}"
                ) from error
        if self.out is not None and self.writes == "folder":
            require_folder(Path(self.out))
        self.validate()

    def validate(self) -> None:
        """Checks the settings against each other.

        Raises:
            ConfigError: they do not fit together, or a number is out of its range.
        """

    def usual_folder(self) -> Path | None:
        """Returns the folder that a command writes to without ``--out``; None: none."""
        return None

    @abstractmethod
    def perform(self, console: Console) -> Steps[Found_co]:
        """Yields the steps, and returns what was found.

        Args:
            console: where a simulation may show how far it is, between phases.
        """

    def in_its_folder(self) -> Self:
        """Returns the study with the folder that it needs."""
        if self.out is not None or not self.keeps:
            return self
        return self.at(self.usual_folder())

    def at(self, out: Path | None) -> Self:
        """Returns the study with another folder."""
        if out is not None and self.writes == "folder":
            require_folder(out)
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        return type(self)(**{**given, "out": out})

    @property
    def folder(self) -> Path:
        """``out`` of a study that needs a folder."""
        assert self.out is not None
        return Path(self.out)


_known: dict[type, Sequence[Setting]] = {}


def settings_of(study: type[Study[Any]]) -> Sequence[Setting]:
    """Returns the fields of a study in the order of its arguments."""
    if study not in _known:
        _known[study] = _read_settings(study)
    return _known[study]


def _read_settings(study: type[Study[Any]]) -> Sequence[Setting]:
    hints = get_type_hints(study, include_extras=True)
    docs, of_frame = dict[str, str](), set[str]()
    for cls in reversed(study.__mro__):
        if issubclass(cls, Study):
            docs.update(descriptions(cls))
            if cls is not study:
                of_frame |= set(vars(cls).get("__annotations__", {}))
    found = []
    for each in fields(study):
        kinds, remarks = _look(hints[each.name])
        option = next((r for r in remarks if isinstance(r, Option)), Option())
        least = next((r.ge for r in remarks if hasattr(r, "ge")), None)
        found.append(
            Setting(
                each.name,
                hints[each.name],
                frozenset(kinds),
                least,
                option,
                each.default,
                bool(each.kw_only),
                docs.get(each.name, ""),
                each.name in of_frame,
            )
        )
    return sorted(found, key=lambda setting: (setting.is_keyword, setting.of_frame))


@cache
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))


def _brief(value: object) -> str:
    is_plain = isinstance(value, str | int | float | list | tuple | dict | None)
    return repr(value) if is_plain else type(value).__name__


# --------------------------------------------------------------------- page and files


def require_folder(out: Path) -> Path:
    """Returns the folder of ``--out``, which need not exist.

    Raises:
        ConfigError: it is a file.
    """
    for place in (out, *out.parents):
        if place.exists() and not place.is_dir():
            where = "is" if place == out else f"{place} is"
            raise ConfigError(f"--out {out}: {where} a file, not a folder")
    return out


def write_findings(study: Study[Any], found: Outcome, said: Findings) -> list[str]:
    """Writes what a study has found to its folder; returns lines that name the files.

    Args:
        study: with ``out``; without it, nothing is written.
        found: what its ``perform`` returned.
        said: what that says.
    """
    if study.out is None:
        return []
    out = Path(study.out)
    file = out if study.writes == "page" else out / f"{study.name}.html"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, page_of(said))
    lines = [f"page: {file}"]
    if study.writes == "folder":
        numbers = out / f"{study.name}.json"
        write_text(numbers, to_json(said.numbers, indent=1) + "\n")
        lines += [f"numbers: {numbers}", *found.write_more(out)]
    return lines


_INTRO = """<h1>{title}</h1>
<p class="under">{heading}</p>
<div class="{kind}"><p><strong>{verdict}</strong> {doubts}</p></div>"""
_PLAIN = """<h1>{title}</h1>
<div class="verdict plain">{sentences}</div>"""


def page_of(said: Findings) -> str:
    """Returns the findings as one self-contained HTML page."""
    verdict, kind = said.verdict, "verdict warn" if said.is_warning else "verdict"
    if verdict:
        top = _INTRO.format(
            title=text(said.title),
            heading=text(said.heading),
            kind=kind,
            verdict=text(f"{verdict[0].upper()}{verdict[1:]}."),
            doubts=text(" ".join(said.doubts)),
        )
    else:
        paragraphs = "".join(map(_paragraph, said.sentences))
        top = _PLAIN.format(title=text(said.title), sentences=paragraphs)
    if said.yaml:
        top += copyable(said.yaml)
    parts = [*said.parts]
    if verdict and said.sentences:
        more = [f"{line}." for line in said.sentences]
        parts[-1] = parts[-1]._replace(notes=[*parts[-1].notes, *more])
    return page(said.title, top, [_section(part) for part in parts])


def _section(part: Part) -> Section:
    inner = [plot(draw(), label) for label, draw in part.figures]
    cells = part.on_page or part.table
    if cells is not None:
        inner.append(cells.on_page())
    inner.append("".join(note(text(line)) for line in part.notes))
    anchor = part.anchor or part.title.split()[0].lower()
    return Section(
        anchor, part.title, text(part.lead), [each for each in inner if each]
    )


def _paragraph(line: str) -> str:
    """A line of the terminal: a heading, one of the points below it, or a remark."""
    if line.startswith("  "):
        return f'<p class="point">{text(line.strip())}</p>'
    if line.endswith(":"):
        return f"<p><strong>{text(line)}</strong></p>"
    return f"<p>{text(line)}</p>"
