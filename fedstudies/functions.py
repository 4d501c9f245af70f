"""The Python functions of the studies."""

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING
from inspect import Parameter, Signature, cleandoc
from typing import Any, NamedTuple, ParamSpec, cast

from fedcore.errors import LatecomerError, UserCodeError
from fedstudies.frame import (
    QUIET,
    Found,
    Outcome,
    Setting,
    Stopped,
    Study,
    follow,
    settings_of,
    write_findings,
)

Given = ParamSpec("Given")
_WIDTH = 80  # of a docstring
_OPTION = re.compile(r"(?<![\w-])(?:--[a-z][a-z-]*\w|[A-Z]{4,})(?![\w-])")
_GUARD = """A script that uses several ``jobs`` must guard its own start with
``if __name__ == "__main__"``, since they import it."""


class Doc(NamedTuple):
    """The docstring of a study, in parts."""

    text: str
    """What it does, for both helps."""
    rest: str
    """What a function returns and raises."""


def split_doc(study: type[Study[Any]]) -> Doc:
    """Splits the docstring of a study before ``Returns:``."""
    text, head, rest = cleandoc(study.__doc__ or "").partition("\nReturns:\n")
    return Doc(text.strip(), (head + rest).strip())


def function_of(study: Callable[Given, Study[Found]]) -> Callable[Given, Found]:
    """Makes the Python function of a study: its arguments are the fields.

    Args:
        study: its class.
    """
    kind = cast("type[Study[Any]]", study)
    settings = settings_of(kind)
    signature = Signature([_parameter(each) for each in settings])

    def function(*args: Given.args, **given: Given.kwargs) -> Found:
        try:
            signature.bind_partial(*args, **given)  # unknown ones are told first
            signature.bind(*args, **given)
        except TypeError as error:
            known = ", ".join(signature.parameters)
            text = f"{function.__name__}(): {error}; its arguments: {known}"
            raise TypeError(text) from None
        with naming_arguments(kind):
            return carry_out(study(*args, **given))

    function.__name__ = function.__qualname__ = kind.function or kind.name
    function.__module__ = kind.__module__
    function.__doc__ = _doc(kind, settings)
    function.__annotations__ = {each.name: each.annotation for each in settings}
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def give_doc_of(
    study: type[Study[Any]],
) -> Callable[[Callable[Given, Found]], Callable[Given, Found]]:
    """Gives a function that is written by hand the docstring of a study.

    Args:
        study: its class.
    """

    def give(function: Callable[Given, Found]) -> Callable[Given, Found]:
        function.__doc__ = _doc(study, settings_of(study))
        return function

    return give


@contextmanager
def naming_arguments(study: type[Study[Any]]) -> Iterator[None]:
    """Makes errors of the block name the arguments of a study, and not its options.

    Args:
        study: its class.
    """
    names = {
        option: each.name
        for each in settings_of(study)
        if not each.option.is_argument
        for option in (each.typed, each.option.also)
    }
    try:
        yield
    except UserCodeError:
        raise  # the words are the user's
    except LatecomerError as error:
        error.args = (_replace_options(str(error), names),)
        raise


def _replace_options(text: str, names: Mapping[str, str]) -> str:
    return _OPTION.sub(lambda word: names.get(word[0], word[0]), text)


def carry_out(study: Study[Found]) -> Found:
    """Runs a study, writes its files where it has a folder, and returns what it found.

    Raises:
        KeyboardInterrupt: at Ctrl-C; the files hold what was known by then.
    """
    study = study.in_its_folder()
    try:
        found = follow(study.perform(QUIET))
    except Stopped as stop:
        if isinstance(stop.found, Outcome):
            write_findings(study, stop.found, stop.found.findings())
        raise
    if study.out is not None:
        write_findings(study, found, found.findings())
    return found


def _parameter(setting: Setting) -> Parameter:
    is_keyword, default = setting.is_keyword, setting.default
    return Parameter(
        setting.name,
        Parameter.KEYWORD_ONLY if is_keyword else Parameter.POSITIONAL_OR_KEYWORD,
        default=Parameter.empty if default is MISSING else default,
        annotation=setting.annotation,
    )


def _doc(study: type[Study[Any]], settings: Any) -> str:
    """A docstring in Google's form, in which options are called as arguments are."""
    names = {each.typed: f"``{each.name}``" for each in settings}

    def name_arguments(text: str) -> str:
        return _replace_options(text, names)

    def item(setting: Setting) -> str:
        line = f"{setting.name}: {name_arguments(' '.join(setting.doc.split()))}"
        is_text = setting.option.read or setting.option.read_all
        if is_text or setting.is_repeated:
            line += f" Given as {setting.wanted}."
        return textwrap.fill(
            line, _WIDTH, initial_indent="    ", subsequent_indent=" " * 8
        )

    text, rest = split_doc(study)
    args = "\n".join(["Args:", *map(item, settings)])
    is_spread = any(each.name == "jobs" for each in settings)
    same = f"The command ``fedsim {study.name}`` does the same."
    more = "\n".join(filter(None, (same, _GUARD if is_spread else "")))
    return "\n\n".join(filter(None, (name_arguments(text), more, args, rest)))
