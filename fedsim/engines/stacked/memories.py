"""The vectors that clients keep between tasks, if they keep any.

They lie in blocks of rows. Beyond a limit the blocks are files, so that a hundred
thousand clients can each keep a model on a machine with too little memory for all.
"""

import tempfile
from pathlib import Path

import numpy as np

from fedcore.typing import Indices, Vector

_BLOCK = 1 << 24  # bytes, about


class Memories:
    """One row of ``dim`` values for each client that was given one."""

    def __init__(self, dim: int, most_bytes: int) -> None:
        """Keeps up to ``most_bytes`` of rows in memory."""
        self._dim = dim
        self._rows_a_block = max(1, _BLOCK // (4 * dim))
        self._most = most_bytes
        self._blocks: list[Vector] = []
        self._places: dict[int, int] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __contains__(self, client: int) -> bool:
        """Returns whether this client keeps a row."""
        return client in self._places

    def __len__(self) -> int:
        """Returns the number of clients that keep a row."""
        return len(self._places)

    def get(self, client: int) -> Vector | None:
        """Returns a client's row, which the caller may write into; None without one."""
        place = self._places.get(client)
        if place is None:
            return None
        block, row = divmod(place, self._rows_a_block)
        kept_D: Vector = self._blocks[block][row]
        return kept_D

    def put(self, client: int, row_D: Vector) -> None:
        """Stores a copy of a row."""
        place = self._places.get(client)
        if place is None:
            place = self._places[client] = len(self._places)
            if place == len(self._blocks) * self._rows_a_block:
                self._blocks.append(self._new_block())
        block, row = divmod(place, self._rows_a_block)
        self._blocks[block][row] = row_D

    def stack(self, clients: Indices) -> Vector:
        """Returns the rows of these clients (N, D), with zeros where there is none."""
        rows_ND = np.zeros((len(clients), self._dim), np.float32)
        for at, client in enumerate(clients.tolist()):
            row_D = self.get(client)
            if row_D is not None:
                rows_ND[at] = row_D
        return rows_ND

    def dump(self) -> Vector:
        """Returns the rows of :meth:`clients`, in their order."""
        return self.stack(np.array(self.clients(), np.int64))

    def clients(self) -> list[int]:
        """Returns the clients that keep a row."""
        return list(self._places)

    def close(self) -> None:
        """Removes the files."""
        self._blocks.clear()
        self._places.clear()
        if self._folder is not None:
            self._folder.cleanup()

    def _new_block(self) -> Vector:
        shape = self._rows_a_block, self._dim
        nbytes = 4 * self._rows_a_block * self._dim
        if (len(self._blocks) + 1) * nbytes <= self._most:
            return np.zeros(shape, np.float32)
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="latecomer-memories-")
        path = Path(self._folder.name) / f"{len(self._blocks)}.rows"
        return np.memmap(path, np.float32, "w+", shape=shape)
