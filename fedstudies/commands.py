"""The commands of all studies; each imports its study when it is used."""

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedrun.cli.command import (
    PATH,
    example,
    in_sentences,
    json_option,
    log_to_stderr,
    say,
    verbose_option,
    with_options,
)
from fedrun.cli.help import COMPUTING, OUTPUT, Command, section
from fedstudies import STUDIES

if TYPE_CHECKING:
    from fedstudies.frame import Findings, Setting, Study

_SECTIONS = {"out": OUTPUT, "jobs": COMPUTING}  # of the help
_TYPED = f"{__name__}.typed"  # in a context: the words behind the command's name


def commands() -> Iterator[click.Command]:
    """Yields the commands in the order of use."""
    for name, where in STUDIES.items():
        yield _Later(name, where)


class _Later(click.Command):
    """A command whose study is not imported for a list of commands."""

    def __init__(self, name: str, where: str) -> None:
        self._where = where
        super().__init__(name, help=_summary(where))

    @cached_property
    def _made(self) -> click.Command:
        module, _, study = self._where.partition(":")
        return command_of(getattr(import_module(module), study))

    @property
    def params(self) -> list[click.Parameter]:
        return self._made.params

    @params.setter
    def params(self, given: Any) -> None:
        """They are those of the study."""

    @property
    def epilog(self) -> str | None:
        return self._made.epilog

    @epilog.setter
    def epilog(self, given: Any) -> None:
        """It has the examples of the study."""

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        return self._made.make_context(*args, **options)

    def get_help(self, ctx: click.Context) -> str:
        return self._made.get_help(ctx)


def _summary(where: str) -> str:
    """Reads the first line of a study's docstring from its file."""
    module, _, study = where.partition(":")
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text(encoding="utf-8")
    _, found, rest = source.partition(f"\nclass {study}(")
    if not found:
        raise LookupError(where)
    return rest.split('"""')[1].partition("\n")[0]


class _Command(Command):
    """A command that knows the words that were typed behind its name."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        typed = [*args]
        context = super().make_context(info_name, args, parent, **extra)
        context.meta[_TYPED] = typed
        return context


def command_of(study: "type[Study[Any]]") -> click.Command:
    """Makes the command of a study.

    Its options are the fields, and its help is the docstring up to what a Python
    function returns.
    """
    from fedstudies.frame import settings_of

    settings = settings_of(study)
    own = [each for each in settings if each.option.is_own]

    def command(*, as_json: bool, verbose: bool, **texts: Any) -> None:
        log_to_stderr(verbose)
        given = {each.name: _value(each, texts[each.name]) for each in settings
                 if each.name in texts}  # fmt: skip
        show(study(**given), as_json=as_json)

    function = with_options(
        *(_argument(each) for each in own if each.option.is_argument),
        *study.decorators,
        *(_option(s) for s in own if not s.option.is_argument and not s.of_frame),
        *(
            section(_SECTIONS[each.name], _option(each))
            for each in own
            if not each.option.is_argument and each.of_frame
        ),
        json_option,
        verbose_option,
    )(in_sentences(command))
    words = [f"fedsim {study.name} {each}" for each in study.examples]
    made = click.command(
        study.name, cls=_Command, epilog=example(*words), help=_help(study, settings)
    )(function)
    assert isinstance(made, click.Command)
    return made


def _help(study: "type[Study[Any]]", settings: "Sequence[Setting]") -> str:
    from fedstudies.functions import split_doc

    parts = [split_doc(study).text]
    parts += [
        f"{each.typed}: {each.doc}" for each in settings if each.option.is_argument
    ]
    return "\n\n".join(parts)


def _argument(setting: "Setting") -> Callable[[Any], Any]:
    from dataclasses import MISSING

    is_many = setting.is_repeated
    return click.argument(
        setting.name,
        type=PATH if Path in setting.kinds and not is_many else str,
        nargs=-1 if is_many else 1,
        required=setting.default is MISSING,
    )


def _option(setting: "Setting") -> Callable[[Any], Any]:
    from dataclasses import MISSING

    option, default = setting.option, setting.default
    names = [*filter(None, (option.also, setting.typed)), setting.name]
    if option.also.startswith("--"):
        names = [setting.typed, option.also, setting.name]
    doc = setting.doc
    if setting.is_repeated:
        return click.option(
            *names,
            multiple=True,
            type=PATH if Path in _inner(setting) else str,
            metavar=option.metavar,
            help=f"{doc} May be given several times.",
        )
    if bool in setting.kinds:
        return click.option(*names, is_flag=True, help=doc)
    if default is MISSING:
        return click.option(
            *names,
            type=_type(setting),
            required=True,  # a default, even None, would count as given
            metavar=option.metavar,
            help=doc,
        )
    usual = None if option.usual else default
    if isinstance(usual, tuple):
        usual = ",".join(map(str, usual)) or None
    return click.option(
        *names,
        type=_type(setting),
        default=usual,
        show_default=usual is not None,
        metavar=option.metavar,
        help=doc,
    )


def _inner(setting: "Setting") -> set[Any]:
    """Returns the types of a list's items."""
    from fedstudies.frame import inner_kinds

    return inner_kinds(setting.annotation)


def _type(setting: "Setting") -> Any:
    kinds, least = setting.kinds, setting.least
    choices = [each for each in kinds if isinstance(each, str)]
    if setting.option.read is not None:
        return str
    if choices:
        return click.Choice(sorted(choices, reverse=True))
    if Path in kinds:
        return PATH
    if int in kinds:
        return int if least is None else click.IntRange(int(least))
    if float in kinds:
        return float if least is None else click.FloatRange(least)
    return str


def _value(setting: "Setting", typed: Any) -> Any:
    """Makes the value of a field of what was typed."""
    option = setting.option
    if typed is None or typed == ():
        return setting.default if option.usual is None else option.usual()
    read = option.read or option.read_all
    return typed if read is None else read(setting.typed, typed)


# ------------------------------------------------------------------ what a command does


def show(study: "Study[Any]", *, as_json: bool) -> None:
    """Runs a study and tells what it has found.

    After Ctrl-C, what is known by then is told, and the command that continues.
    """
    from rich.console import Console

    from fedrun.cli.stoppable import stoppable
    from fedstudies.frame import Outcome, Stopped, follow

    console, found = Console(stderr=True), None
    was_given = study.out is not None
    if not was_given and (study.keeps or not as_json):
        study = study.at(study.usual_folder())
    try:
        with stoppable():
            found = follow(study.perform(console), console)
    except Stopped as stop:
        console.print(f"stopped: {stop.kept}" if stop.kept else "stopped",
                      soft_wrap=True, markup=False, highlight=False)  # fmt: skip
        found = stop.found
        if stop.again is not None:
            here = [] if was_given or study.out is None else ["-o", str(study.out)]
            words = _words(study.name, [*stop.again, *here])
            click.echo(f"to continue: {shlex.join(words)}", err=True)
        if isinstance(found, str):
            console.print(f"nothing to tell: {found}")
            sys.exit(1)
    except KeyboardInterrupt:
        console.print("stopped")
        sys.exit(1)
    assert isinstance(found, Outcome)
    _tell(study, found, console, as_json=as_json)


def _words(name: str, more: Sequence[str]) -> list[str]:
    context = click.get_current_context(silent=True)
    typed = [] if context is None else context.meta.get(_TYPED, [])
    return ["fedsim", name, *typed, *more]


def _tell(study: "Study[Any]", found: Any, console: Any, *, as_json: bool) -> None:
    """Writes the files; prints tables, doubts, and last the result."""
    from fedrun.cli.plain_json import to_json
    from fedstudies.frame import write_findings
    from fedstudies.tables import screen, tell

    said: Findings = found.findings()
    for line in said.asides:
        tell(console, line)
    files = write_findings(study, found, said)
    shown = screen()
    for part in () if as_json else said.parts:
        if part.table is not None:
            shown.print(
                part.table.on_screen(
                    title=part.heading or part.title,
                    caption=part.caption,
                    highlighted=part.highlighted,
                )
            )
            for line in part.notes:
                say(line)
    for line in files:
        tell(console, line)
    if as_json:
        click.echo(to_json(said.numbers, indent=1))
        return
    for line in filter(None, (*said.doubts, said.verdict, *said.sentences)):
        say(line)
    if said.yaml:
        click.echo(said.yaml)
