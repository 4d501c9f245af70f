"""What a program imports, seen from a process of its own."""

import os
import subprocess
import sys


def imported_by(modules: str, heavy: set[str]) -> set[str]:
    """Returns which of the heavy packages are imported with these modules.

    Args:
        modules: their names, with commas between them.
        heavy: names of packages.
    """
    code = f"import sys, {modules}; print(*({heavy!r} & {{*sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())
