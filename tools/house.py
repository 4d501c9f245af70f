"""``python -m tools.house``: how large the house is, and how far one idea is spread.

Counts files, lines of code, names, words and pictures; follows one accepted update on
a real server; and takes the time until commands answer. ``--fast`` leaves out what has
to run, and ``--save NAME`` keeps the counts in ``benchmarks/results/house.json``.
"""

import argparse
import ast
import io
import json
import re
import resource
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, get_args

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "house.json"
OF_TESTS = {"tests", "benchmarks", "examples", "tools", "docs", "protos"}
COMMANDS = (
    ("fedserver", "--help"),
    ("fedserver", "healthcheck", "--help"),
    ("fedclient", "--help"),
    ("fedsim", "--help"),
)
SHY = ("What", "How", "Where", "Who", "Whoever", "All that", "Whose", "Whatever")
IRREGULAR = frozenset({
    "been", "begun", "borne", "bound", "bought", "broken", "brought", "built",
    "chosen", "come", "done", "drawn", "driven", "fed", "felt", "found",
    "forgotten", "given", "gone", "grown", "heard", "held", "kept", "known", "laid",
    "lain", "learnt", "led", "left", "lent", "lost", "made", "meant", "met", "paid",
    "said", "seen", "sent", "shown", "spent", "taken", "taught", "thought",
    "thrown", "told", "understood", "won", "worn", "written",
})  # fmt: skip
VERBS = frozenset({"exceed", "feed", "need", "proceed", "shed", "speed", "succeed"})
WORD = re.compile(r"\S*\w\S*")  # no lines and bars of tables
PICTURE = re.compile(r"!\[[^\]]*\]\(|^\.\. (?:image|figure)::|<img |```mermaid", re.M)


def production() -> list[Path]:
    """Returns the files of Python that are installed."""
    packages = sorted(
        path.parent for path in ROOT.glob("*/__init__.py")
        if path.parent.name not in OF_TESTS
    )  # fmt: skip
    return [path for package in packages for path in sorted(package.rglob("*.py"))]


def named(path: Path) -> str:
    """Returns a path below the checkout."""
    return path.relative_to(ROOT).as_posix()


def lines_of_code(source: str) -> int:
    """Returns how many lines hold code: no docstring, comment, blank or import."""
    skipped = set[int]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and _is_no_code(node):
            skipped |= set(range(node.lineno, (node.end_lineno or 0) + 1))
    held = set[int]()
    empty = {
        tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT,
        tokenize.DEDENT, tokenize.ENDMARKER, tokenize.ENCODING,
    }  # fmt: skip
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in empty:
            held |= set(range(token.start[0], token.end[0] + 1))
    return len(held - skipped)


def _is_no_code(node: ast.stmt) -> bool:
    """Returns whether a statement is an import, or a string alone as docstrings are."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return isinstance(node.value.value, str)
    return isinstance(node, ast.Import | ast.ImportFrom)


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yields all functions and methods."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def is_participle(name: str) -> bool:
    """Returns whether a name is a past participle, alone or at its beginning."""
    word = name.strip("_").split("_")[0]
    if word in VERBS:
        return False
    return word in IRREGULAR or (word.endswith("ed") and len(word) > 4)


def is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Returns whether a function is read like an attribute."""
    names = {ast.unparse(decorator) for decorator in function.decorator_list}
    return any("property" in name for name in names)


def twins() -> list[tuple[str, str]]:
    """Returns the events and records of the coordinator that have the same fields."""
    from fedcore.coordinator.events import Event, Record

    found = [(kind, [field.name for field in fields(kind)]) for kind in get_args(Event)]
    return [
        (event.__name__, record.__name__)
        for event, names in found
        for record in get_args(Record)
        if event is not record and names == [field.name for field in fields(record)]
    ]


def count_sizes(files: list[Path]) -> dict[str, Any]:
    """Returns the counts of files and lines."""
    sources = [path.read_text(encoding="utf-8") for path in files]
    heights = [source.count("\n") for source in sources]
    code = Counter[str]()
    for path, source in zip(files, sources, strict=True):
        code[named(path).partition("/")[0]] += lines_of_code(source)
    longest = max(zip(heights, files, strict=True))
    span, where = max(
        ((node.end_lineno or 0) - node.lineno + 1, f"{named(path)} {node.name}")
        for path, source in zip(files, sources, strict=True)
        for node in functions(ast.parse(source))
    )
    return {
        "production files": len(files),
        "lines": sum(heights),
        "lines of code": sum(code.values()),
        "lines of code by package": dict(code),
        "median file, lines": round(median(heights)),
        "longest file, lines": f"{longest[0]} ({named(longest[1])})",
        "longest function, lines": f"{span} ({where})",
    }


def count_names(files: list[Path]) -> dict[str, Any]:
    """Returns the counts of names and docstrings of another kind than the rest."""
    participles, shy, tasks = 0, 0, 0
    for path in files:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        participles += sum(
            is_participle(function.name) and not is_property(function)
            for function in functions(tree)
        )
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                tasks += bool(re.search(r"Task|Lease", node.name))
            if isinstance(
                node,
                ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef,
            ):
                text = ast.get_docstring(node) or ""
                shy += text.startswith(tuple(f"{word} " for word in SHY))
    return {
        "functions named by participles": participles,
        f"docstrings that begin with {', '.join(SHY[:4])} ...": shy,
        "classes for tasks and leases": tasks,
    }


def count_pages() -> dict[str, Any]:
    """Returns the counts of words and pictures of README and docs."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts = [page.read_text(encoding="utf-8") for page in pages]
    words = [len(WORD.findall(text)) for text in texts]
    return {
        "pages": len(pages),
        "words": sum(words),
        "words of README": words[0],
        "pictures": sum(len(PICTURE.findall(text)) for text in texts),
    }


def time_starts() -> dict[str, Any]:
    """Returns the seconds of a processor that commands need to answer.

    The health is that of a real server.
    """
    from tests.served import served

    taken = {f"{' '.join(command)}, s of CPU": _least(command) for command in COMMANDS}
    with TemporaryDirectory() as folder, served(Path(folder)) as server:
        probe = ("fedserver", "healthcheck", server.address)
        return taken | {"fedserver healthcheck HOST, s of CPU": _least(probe)}


def _least(command: tuple[str, ...]) -> float:
    return round(min(_cpu(command) for _ in range(3)), 2)


def _cpu(command: tuple[str, ...]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    path = Path(sys.executable).parent / command[0]
    subprocess.run([path, *command[1:]], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Prints it all, and saves it if that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true", help="run nothing")
    parser.add_argument("--save", metavar="NAME", help="keep the counts by this name")
    given = parser.parse_args()
    files = production()
    found = count_sizes(files) | count_names(files) | count_pages()
    if not given.fast:
        from tools.way import count_way

        found |= count_way() | time_starts()
    for name, count in found.items():
        print(
            f"{name:50} {count:,}" if isinstance(count, int) else f"{name:50} {count}"
        )
    if given.save:
        saved = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        text = json.dumps({**saved, given.save: found}, indent=1, ensure_ascii=False)
        RESULTS.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
