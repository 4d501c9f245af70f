"""``python -m docs.pictures``: draws the pictures of the pages.

Diagrams and charts follow from the program and from saved results, so they are drawn
the same every time. ``--screens`` also takes pictures of a real run, which differ a
little each time, and needs Chromium.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from docs.pictures.charts import accuracy_against_bytes, accuracy_over_time
from docs.pictures.diagrams import (
    drivers_around_the_core,
    life_of_an_update,
    threads_of_the_server,
)

FOLDER = Path(__file__).parent
DRAWN = {
    "life_of_an_update.svg": life_of_an_update,
    "threads_of_the_server.svg": threads_of_the_server,
    "drivers_around_the_core.svg": drivers_around_the_core,
    "accuracy_over_time.svg": accuracy_over_time,
    "accuracy_against_bytes.svg": accuracy_against_bytes,
}
VIEW, REPORT = "live_view.svg", "report.png"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def main(arguments: Sequence[str] | None = None) -> int:
    """Draws them; returns the exit code 0."""
    parser = argparse.ArgumentParser(prog="python -m docs.pictures")
    parser.add_argument(
        "--screens", action="store_true", help="also run a federation, for two screens"
    )
    options = parser.parse_args(arguments)
    for name, draw in DRAWN.items():
        (FOLDER / name).write_text(draw(), encoding="utf-8")
    if options.screens:
        browser = next(filter(None, map(shutil.which, BROWSERS)), None)
        if browser is None:
            parser.error(f"none of {', '.join(BROWSERS)} is installed")
        from docs.pictures.screens import take

        take(FOLDER / VIEW, FOLDER / REPORT, browser)
    return 0


if __name__ == "__main__":
    sys.exit(main())
