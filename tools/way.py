"""Follows one accepted update through a real server: which of our files it enters."""

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tests.peer import Peer, packed
from tests.served import Served, ones, served, until

ROOT = Path(__file__).parent.parent
COORDINATOR = "fedcore/coordinator/"
OTHERS = ("tests/", "tools/")


class Way:
    """The calls of our functions, in their order, on all threads but the caller's."""

    def __init__(self) -> None:
        self.calls: list[CodeType] = []
        self.follows = False
        self._ours: dict[str, str] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Notes a call; for ``threading.setprofile``."""
        if self.follows and event == "call" and self.file(frame.f_code):
            self.calls.append(frame.f_code)

    def file(self, code: CodeType) -> str:
        """Returns the path below the checkout, or "" of other people's code."""
        name = code.co_filename
        if name not in self._ours:
            path = Path(name)
            ours = path.is_relative_to(ROOT) and ".venv" not in path.parts
            found = path.relative_to(ROOT).as_posix() if ours else ""
            self._ours[name] = "" if found.startswith(OTHERS) else found
        return self._ours[name]

    @property
    def files(self) -> list[str]:
        """Returns the files, each once, in the order in which they are entered."""
        return list(dict.fromkeys(self.file(code) for code in self.calls))


@contextmanager
def followed() -> Iterator[Way]:
    """Follows all threads that begin within."""
    way = Way()
    threading.setprofile(way)
    try:
        yield way
    finally:
        threading.setprofile(None)


def one_update() -> Way:
    """Returns the way of an update: from its push until its version is published."""
    with (
        tempfile.TemporaryDirectory() as folder,
        followed() as way,
        served(Path(folder), stop={"versions": 100}) as server,
        Peer(server.address) as peer,
    ):
        for _ in range(5):  # what happens once has happened
            _push(server, peer)
        peer.pull()
        way.follows = True
        _push(server, peer, pulls=False)
        way.follows = False
    return way


def _push(server: Served, peer: Peer, *, pulls: bool = True) -> None:
    if pulls:
        peer.pull()
    version = server.state.version
    peer.push(packed(ones()))
    until(lambda: server.state.version > version, "the update is in a version")


def count_way() -> dict[str, int]:
    """Returns how many of our functions and files an update enters."""
    way = one_update()
    core = [file for file in way.files if file.startswith(COORDINATOR)]
    return {
        "an update's calls": len(way.calls),
        "an update's functions": len(set(way.calls)),
        "an update's files": len(way.files),
        "an update's files of the coordinator": len(core),
    }


if __name__ == "__main__":
    print(*one_update().files, sep="\n")
