"""A worker of claim 32: receives, computes and sends a model layer by layer.

``layer_worker.py PORT PLAN``: the plan is a file of JSON with ``bytes``, ``forward``
and ``backward`` (seconds) of each layer, ``pace``, a factor for each task, the
``delay`` before the first, and the file for the ``phases``, or null. Computing is
sleeping. It imports little, so that many workers start at once.
"""

import json
import os
import socket
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any

HEAD = struct.Struct("!HI")  # the layer, and its bytes
ACKNOWLEDGED = b"a"


class Worker:
    """One connection and its tasks."""

    def __init__(self, port: int, plan: dict[str, Any]) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._plan = plan
        self._rows = list[dict[str, Any]]()

    def work(self) -> None:
        """Goes through its tasks, until they or the server end."""
        time.sleep(self._plan["delay"])
        for task, factor in enumerate(self._plan["pace"]):
            self._task(task, factor)
            self._save(is_first=not task)

    def _task(self, task: int, factor: float) -> None:
        layers = range(len(self._plan["bytes"]))
        arrived = [threading.Event() for _ in layers]
        computed = [threading.Event() for _ in layers]
        network = threading.Thread(
            target=self._transfer, args=(task, arrived, computed), daemon=True
        )
        network.start()
        for layer in layers:
            arrived[layer].wait()
            began = time.monotonic()
            time.sleep(self._plan["forward"][layer] * factor)
            self._note(task, "compute", began, layer, "download")
        for layer in reversed(layers):
            began = time.monotonic()
            time.sleep(self._plan["backward"][layer] * factor)
            self._note(task, "compute", began, layer, "compute")
            computed[layer].set()
        network.join()
        self._note(task, "verdict", time.monotonic(), None, "upload")

    def _transfer(
        self, task: int, arrived: list[threading.Event], computed: list[threading.Event]
    ) -> None:
        """Receives the layers as the server sends them; sends the last one first."""
        began = time.monotonic()
        self._socket.sendall(ACKNOWLEDGED)
        for _ in arrived:
            layer, size = HEAD.unpack(self._read(HEAD.size))
            self._read(size)
            self._note(task, "download", began, layer, None, size, version=task)
            began = time.monotonic()
            arrived[layer].set()
        for layer in reversed(range(len(computed))):
            computed[layer].wait()
            began, size = time.monotonic(), self._plan["bytes"][layer]
            self._socket.sendall(HEAD.pack(layer, size) + bytes(size))
            self._read(1)
            self._note(task, "upload", began, layer, "compute", size)

    def _read(self, size: int) -> bytes:
        """Reads so many bytes, or ends the process: the server has all it wanted."""
        found = bytearray()
        while len(found) < size:
            got = self._socket.recv(size - len(found))
            if not got:
                os._exit(0)
            found += got
        return bytes(found)

    def _note(
        self,
        task: int,
        phase: str,
        start: float,
        part: int | None,
        depends_on: str | None,
        nbytes: int = 0,
        **more: int,
    ) -> None:
        self._rows.append(
            {
                "task": task,
                "phase": phase,
                "start": start,
                "duration": time.monotonic() - start,
                "bytes": nbytes,
                "depends_on": depends_on,
                "part": part,
                **more,
            }
        )

    def _save(self, *, is_first: bool) -> None:
        if self._plan["phases"]:
            head = {"format": "latecomer phases 1", "client": "worker", "run": "layers"}
            rows = [head, *self._rows] if is_first else self._rows
            with open(self._plan["phases"], "a", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
        self._rows = []


if __name__ == "__main__":
    Worker(int(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())).work()
