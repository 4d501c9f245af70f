"""The hostile peer: a process that attacks between ``go NAME`` and ``halt``.

``python -m benchmarks.hostile.peer ADDRESS --dim D`` makes the attacks that are named
on its standard input (:mod:`benchmarks.hostile.attacks`), and prints its actions and
the answers.
"""

import argparse
import json
import resource
import sys
import threading
from pathlib import Path

from benchmarks.hostile.attacker import Attacker
from benchmarks.hostile.attacks import ATTACKS


def main() -> None:
    options = _options()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    attacker = Attacker(options)
    print(json.dumps("ready"), flush=True)
    thread: threading.Thread | None = None
    for line in sys.stdin:
        word, _, name = line.strip().partition(" ")
        if word == "go":
            attacker.begin()
            thread = threading.Thread(
                target=attacker.make, args=(ATTACKS[name],), daemon=True
            )
            thread.start()
            print(json.dumps("going"), flush=True)
        else:
            attacker.over.set()
            if thread is not None:
                thread.join(30.0)
            attacker.hang_up()
            print(json.dumps(attacker.told()), flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("--dim", type=int, required=True)
    parser.add_argument("--stranger", action="store_true", help="it never enrols")
    parser.add_argument("--ca", type=Path)
    parser.add_argument("--certificate", type=Path)
    parser.add_argument("--key", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
