"""Honest clients: those of ``fedclient``, each with a thread and a state folder.

For each line on its standard input it prints how many updates of each client were
accepted so far, which clients are still working, and the other output of the clients.
"""

import argparse
import contextlib
import json
import logging
import sys
import threading
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from fedclient.commands import working
from fedclient.device.pace import read_pace

APP = f"{Path(__file__).parent / 'app.py'}:workload"


class Notes(logging.Handler):
    """What the clients' log tells, by the thread that they work on."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.accepted: Counter[str] = Counter()
        self.said: list[str] = []
        self.ended: dict[str, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Counts the accepted ones, and keeps warnings."""
        who, text = record.threadName or "", record.getMessage()
        if " accepted at version " in text:
            self.accepted[who] += 1
        elif record.levelno > logging.INFO or "the run has ended" in text:
            self.said.append(f"{who}: {text}")


def main() -> None:
    options = _options()
    notes = Notes()
    log = logging.getLogger("fedclient")
    log.setLevel(logging.INFO)
    log.addHandler(notes)
    with ExitStack() as stack:
        threads = [
            threading.Thread(
                target=_work,
                args=(stack.enter_context(_client(options, index)), notes),
                name=f"client-{index}",
                daemon=True,
            )
            for index in range(options.clients)
        ]
        for thread in threads:
            thread.start()
        print(json.dumps("ready"), flush=True)
        for _ in sys.stdin:
            told = {
                "accepted": dict(notes.accepted),
                "at work": [thread.name for thread in threads if thread.is_alive()],
                "said": notes.said[-50:],
                "ended": notes.ended,
            }
            print(json.dumps(told), flush=True)


def _work(worker: Any, notes: Notes) -> None:
    who = threading.current_thread().name
    try:
        worker.run()
        notes.ended[who] = "the run has ended"
    except BaseException as error:  # noqa: BLE001  whatever it was, it is told
        notes.ended[who] = f"{type(error).__name__}: {error}"


def _client(
    options: argparse.Namespace, index: int
) -> contextlib.AbstractContextManager[Any]:
    name = f"client-{index}"
    trust: dict[str, Any] = {}
    if options.ca is not None:
        trust["ca"] = options.ca
    if options.certificates is not None:
        trust["certificate"] = options.certificates / f"{name}.pem"
        trust["key"] = options.certificates / f"{name}.key"
    return working(
        host=options.address,
        app=APP,
        state=options.states / name,
        name="" if options.unnamed else name,
        index=index,
        count=options.clients,
        data={},
        give_up=None,
        checkpoint=None,
        pace=read_pace(str(options.pace)),
        **trust,
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("states", type=Path)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--pace", type=float, default=0.02)
    parser.add_argument("--unnamed", action="store_true")
    parser.add_argument("--ca", type=Path)
    parser.add_argument("--certificates", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
