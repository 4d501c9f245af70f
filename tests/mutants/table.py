"""The saved figures, as a page of the docs shows them."""

import json
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
RESULTS = Path("benchmarks/results/mutants.json")


def table() -> str:
    """A row for each module."""
    saved = json.loads((ROOT / RESULTS).read_text(encoding="utf-8"))["modules"]
    heads = ("module", "mutants", "tried", "caught", "equivalent", "survived")
    rows = [heads, ("---",) * len(heads)]
    rows += [(f"`{path}`", *(str(got[head]) for head in heads[1:]))
             for path, got in saved.items()]  # fmt: skip
    sums = [sum(got[head] for got in saved.values()) for head in heads[1:]]
    rows.append(("all", *map(str, sums)))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"
