"""Coded matrix-vector products: A x from any k of n workers.

Lee, Lam, Pedarsani, Papailiopoulos, Ramchandran, "Speeding Up Distributed Machine
Learning Using Codes", IEEE Transactions on Information Theory 64(3), 2018, arXiv
1512.02673, §III. The rows of A are cut into k blocks, and an (n, k) code over the real
numbers makes n coded blocks of them. Each worker multiplies its block by x. As the code
is maximum distance separable (MDS), any k of the n products determine A x.

The generator is systematic: the first k workers hold the blocks themselves, so nothing
has to be solved where they are the ones that answer. The other rows are Gaussian, of
which any k rows are independent with probability 1; of several draws the one is kept
that decodes best.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedcore.distributions import Floats
from fedcore.errors import ConfigError, NotDecodableError
from fedcore.rng import Key

_DRAWS = 16  # generators, of which the best conditioned is kept
_SETS = 128  # sets of workers by which a generator is judged


@dataclass(frozen=True, eq=False)
class MDSCode:
    """An (n, k) code over the real numbers."""

    generator_WK: Floats
    """Of shape (n, k): any k rows are independent."""

    @property
    def workers(self) -> int:
        """n: the number of workers."""
        return len(self.generator_WK)

    @property
    def needed(self) -> int:
        """k: the number of answers that are enough."""
        return int(self.generator_WK.shape[1])

    def encode(self, a_MF: Floats) -> Floats:
        """Returns each worker's block of coded rows, (n, ⌈M/k⌉, F).

        Args:
            a_MF: the matrix; rows of zeros fill it up to a multiple of k.
        """
        rows, features = a_MF.shape
        height = -(-rows // self.needed)
        padded = np.zeros((height * self.needed, features))
        padded[:rows] = a_MF
        blocks = padded.reshape(self.needed, height * features)
        return (self.generator_WK @ blocks).reshape(self.workers, height, features)

    def decode(self, answered: Sequence[int], products_KH: Floats, rows: int) -> Floats:
        """Returns A x, shape (M,).

        Args:
            answered: which workers the first k products are of, from 0, each once.
            products_KH: their products, (k, ⌈M/k⌉); what is more is not looked at.
            rows: M.

        Raises:
            NotDecodableError: fewer than k workers answered.
        """
        if len(set(answered)) < self.needed:
            raise NotDecodableError(
                f"{len(set(answered))} of {self.workers} workers answered; this code "
                f"needs {self.needed}"
            )
        first = list(answered)[: self.needed]
        solved = np.linalg.solve(self.generator_WK[first], products_KH[: self.needed])
        flat_M: Floats = np.asarray(solved, np.float64).reshape(-1)[:rows]
        return flat_M


def mds_code(workers: int, needed: int, key: Key) -> MDSCode:
    """Returns a systematic (n, k) code.

    Args:
        workers: n.
        needed: k.
        key: draws the rows that are not systematic.

    Raises:
        ConfigError: k is not 1 to n.
    """
    if not 1 <= needed <= workers:
        raise ConfigError(
            f"an MDS code of {workers} workers of which {needed} answer: expected 1 to "
            f"{workers} answers"
        )
    identity = np.eye(needed)
    if needed == workers:
        return MDSCode(identity)
    rng = key.fold_in("sets").generator()
    sets = [rng.choice(workers, needed, replace=False) for _ in range(_SETS)]
    candidates = [
        np.vstack([identity, _parity(workers - needed, needed, key.fold_in(draw))])
        for draw in range(_DRAWS)
    ]
    worst = [
        max(float(np.linalg.cond(each[rows])) for rows in sets) for each in candidates
    ]
    return MDSCode(candidates[int(np.argmin(worst))])


def _parity(rows: int, needed: int, key: Key) -> Floats:
    drawn: Floats = key.generator().standard_normal((rows, needed))
    return drawn
