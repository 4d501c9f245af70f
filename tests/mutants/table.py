"""The saved figures, as a page of the docs shows them."""

import json
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parent.parent.parent
RESULTS = Path("benchmarks/results/mutants.json")
COUNTS = ("mutants", "tried", "caught", "equivalent", "survived")


def table() -> str:
    """Returns a row for each package, with the sums of its modules."""
    saved = json.loads((ROOT / RESULTS).read_text(encoding="utf-8"))["modules"]
    sums: dict[str, dict[str, int]] = {}
    for path, got in saved.items():
        for name in (f"`{PurePosixPath(path).parts[0]}`", "all"):
            row = sums.setdefault(name, dict.fromkeys(("modules", *COUNTS), 0))
            row["modules"] += 1
            for count in COUNTS:
                row[count] += got[count]
    whole = sums.pop("all")
    heads = ("package", "modules", *COUNTS)
    rows = [heads, ("---",) * len(heads)]
    rows += [(name, *map(str, row.values())) for name, row in sums.items()]
    rows.append(("all", *map(str, whole.values())))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"
