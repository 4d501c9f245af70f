"""Plants mistakes and sees whether tests catch them: ``python -m tests.mutants``.

Results are kept in ``.cache/mutants``: a run that was stopped goes on, and one with
more mutants tries only the new ones, and those again that survived.
"""

import argparse
import random
import sys
from importlib.metadata import version
from pathlib import Path

from tests.mutants.books import Book, save
from tests.mutants.operators import Mutant, mutants
from tests.mutants.table import RESULTS, ROOT, table
from tests.mutants.targets import Target, targets
from tests.mutants.trial import Baseline, is_caught, measure, warm_up

CACHE = ROOT / ".cache" / "mutants"


def attack(target: Target, found: list[Mutant], drawn: list[Mutant]) -> Book:
    """Tries the mutants of a module that were drawn and have not been tried."""
    folder = CACHE / target.name
    folder.mkdir(parents=True, exist_ok=True)
    book = Book(target.path, folder / "tried.jsonl", total=len(found), drawn=drawn)
    unexplained = book.unexplained()
    due = [
        mutant for mutant in drawn if book.how(mutant) is None or mutant in unexplained
    ]
    print(f"{target.path}: {len(drawn)} of {len(found)}, {len(due)} to try", flush=True)
    if due:
        baseline = measure(target, folder)
        spans = _spans(target.source)
        for mutant in due:
            tests = _tests_of(mutant, baseline, spans)
            how = is_caught(mutant, target, tests, baseline)
            book.write(mutant, how)
            if not how and not book.reason(mutant):
                print(_told(mutant, len(tests)), flush=True)
    return book


def _draw(
    found: dict[str, list[Mutant]], given: argparse.Namespace
) -> dict[str, list[Mutant]]:
    """Returns the mutants to try, by module."""
    if given.draw:
        lot = random.Random(given.seed)
        every = [(path, mutant) for path, of_it in found.items() for mutant in of_it]
        drawn = dict[str, list[Mutant]]()
        for path, mutant in lot.sample(every, min(given.draw, len(every))):
            drawn.setdefault(path, []).append(mutant)
        return drawn
    if not given.sample:
        return found
    return {
        path: random.Random(given.seed).sample(of_it, min(given.sample, len(of_it)))
        for path, of_it in found.items()
    }


def _spans(source: str) -> dict[int, tuple[int, int]]:
    """From where to where the statement goes that a line belongs to."""
    import ast

    spans: dict[int, tuple[int, int]] = {}
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            continue
        first = node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno
        decorators = getattr(node, "decorator_list", [])
        first = min([first, *(decorator.lineno for decorator in decorators)])
        body = getattr(node, "body", None)
        last = body[0].lineno - 1 if body else getattr(node, "end_lineno", first)
        for line in range(first, max(first, last) + 1):
            old = spans.get(line)
            if old is None or last - first < old[1] - old[0]:
                spans[line] = first, max(first, last)
    return spans


def _tests_of(
    mutant: Mutant, baseline: Baseline, spans: dict[int, tuple[int, int]]
) -> list[str]:
    return baseline.tests_of(*spans.get(mutant.line, (mutant.line, mutant.line)))


def _told(mutant: Mutant, tests: int) -> str:
    return (
        f"  {mutant.path}:{mutant.line} {mutant.function}, {tests} tests\n"
        f"    - {mutant.was}\n    + {mutant.becomes}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", help="paths, or parts of paths")
    parser.add_argument("--sample", type=int, default=0, help="so many of each module")
    parser.add_argument("--draw", type=int, default=0, help="so many of all together")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--save", type=Path, help=f"write the figures, {RESULTS}")
    parser.add_argument("--table", action="store_true", help="of what is saved")
    given = parser.parse_args()
    if given.table:
        print(table())
        return 0
    chosen = [
        target
        for target in targets()
        if not given.modules or any(part in target.path for part in given.modules)
    ]
    warm_up()
    found = {target.path: mutants(target.path, target.source) for target in chosen}
    drawn = _draw(found, given)
    books = [
        attack(target, found[target.path], drawn[target.path])
        for target in chosen
        if target.path in drawn
    ]
    for book in books:
        print(book.line())
    if given.save:
        save(
            given.save,
            books,
            given.draw or given.sample,
            given.seed,
            version("cosmic_ray"),
        )
    return 1 if any(book.unexplained() for book in books) else 0


if __name__ == "__main__":
    sys.exit(main())
