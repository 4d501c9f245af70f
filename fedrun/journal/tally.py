"""Leases and decisions of many simulated clients, stored as columns.

A simulation makes thousands of decisions a second. It keeps what was decided, and when,
but not the updates themselves, which it can compute again.
"""

import base64
import math
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, NamedTuple, get_type_hints

import numpy as np

from fedcore.coordinator.events import Decided, Enrolled, Leased, Stepped, Tallied
from fedcore.protocol import Verdict
from fedcore.typing import Counts, Seconds
from fedrun.journal.store import Configured, Row

NO_VERDICT = 255  # the client was lost, or trains on
MOST_ROWS = 1_000_000  # of one record
MOST_LABELS = 256  # of more classes no counts are kept
_VERDICTS = tuple(Verdict)
_PATCHES = ("none", "replay", "overwrite", "full")
VERDICT_CODES = {verdict: code for code, verdict in enumerate(_VERDICTS)}
PATCH_CODES = {kind: code for code, kind in enumerate(_PATCHES)}

Int32 = Annotated[int, "i"]
Int64 = Annotated[int, "q"]
Code = Annotated[int, "B"]
Float32 = Annotated[float, "f"]
Float64 = Annotated[float, "d"]


class TallyRow(NamedTuple):
    """The lease of a task and the decision on its update: the columns of a tally."""

    client: Int32
    """The client's place among all clients."""
    leased: Float64
    at: Float64
    """The time of the verdict; NaN without one."""
    seq: Int32
    base: Int32
    staleness: Int32
    patch: Code
    down: Int64
    """The bytes of the patch."""
    verdict: Code
    weight: Float64
    samples: Int32
    steps: Int32
    update_norm: Float32
    memory_norm: Float32
    loss: Float32
    """NaN where there is none."""
    up: Int64
    """The bytes of the update."""


_FORMATS: Mapping[str, str] = {
    name: "<" + hint.__metadata__[0]
    for name, hint in get_type_hints(TallyRow, include_extras=True).items()
}
_TYPE = np.dtype(list(_FORMATS.items()))
_pack = struct.Struct("<" + "".join(code[1] for code in _FORMATS.values())).pack
_COUNT = np.dtype("<i4")


class Tally:
    """Rows that are not in the journal yet."""

    def __init__(self) -> None:
        self._rows: list[bytes] = []
        self._counts: dict[int, Counts] = {}  # of some rows, by their place

    def __len__(self) -> int:
        """Returns the number of rows."""
        return len(self._rows)

    def add(self, row: Sequence[float], counts: Counts | None = None) -> None:
        """Adds a lease and its decision.

        Args:
            row: a :class:`TallyRow`, or a plain tuple of its values, made faster.
            counts: how often the update used each label, where that is known.
        """
        if counts is not None and len(counts) <= MOST_LABELS:
            self._counts[len(self._rows)] = counts
        self._rows.append(_pack(*row))

    def take(self, at: Seconds) -> Tallied:
        """Returns all rows as a record, and forgets them."""
        rows, self._rows = np.frombuffer(b"".join(self._rows), _TYPE), []
        packed = b"".join(rows[name].tobytes() for name in TallyRow._fields)
        if self._counts:
            packed += self._pack_counts(len(rows))
            self._counts = {}
        text = base64.b64encode(zlib.compress(packed, 1)).decode()
        return Tallied(at=at, count=len(rows), columns=text)

    def _pack_counts(self, rows: int) -> bytes:
        """Returns the counts of each row as bytes; -1 where a row has none."""
        classes = max(map(len, self._counts.values()))
        counts_NC = np.full((rows, classes), -1, _COUNT)
        for place, counts in self._counts.items():
            counts_NC[place] = 0
            counts_NC[place, : len(counts)] = counts
        return np.array(classes, _COUNT).tobytes() + counts_NC.tobytes()


def columns_of(record: Tallied) -> dict[str, np.ndarray]:
    """Returns the columns of a record, and ``counts`` of labels if it has them.

    Raises:
        ValueError: they are damaged.
    """
    packed, count = _unpack(record), record.count
    columns, at = {}, 0
    for name, kind in _FORMATS.items():
        columns[name] = np.frombuffer(packed, kind, count, at)
        at += columns[name].nbytes
    rest, item = packed[at:], _COUNT.itemsize
    classes = int.from_bytes(rest[:item], "little")
    if classes and len(rest) == item + count * classes * item:
        counts = np.frombuffer(rest, _COUNT, offset=item)
        columns["counts"] = counts.reshape(count, classes).astype(np.int64)
    elif rest:
        raise ValueError(f"{len(rest)} bytes too many in the columns of a tally")
    return columns


def _unpack(record: Tallied) -> bytes:
    """Returns the bytes of a record's columns, of which the record says the number.

    Raises:
        ValueError: they are damaged.
    """
    if not 0 <= record.count <= MOST_ROWS:
        raise ValueError(f"a tally of {record.count:,} rows; at most {MOST_ROWS:,}")
    most = record.count * (_TYPE.itemsize + MOST_LABELS * _COUNT.itemsize) + 4
    try:
        whole = zlib.decompressobj()
        packed = whole.decompress(base64.b64decode(record.columns), most)
    except (zlib.error, ValueError) as error:
        raise ValueError(f"the columns of a tally: {error}") from error
    if not whole.eof:
        raise ValueError(f"the columns of a tally do not end after {most:,} bytes")
    return packed


def unpack_records(record: Tallied, cids: Sequence[str]) -> Iterator[Leased | Decided]:
    """Yields the records of the rows; ``cids`` holds the client of each place.

    Raises:
        ValueError: they are damaged.
    """
    columns = columns_of(record)
    _require_known(columns, len(cids))
    counts_NC = columns.pop("counts", None)
    values = zip(*(column.tolist() for column in columns.values()), strict=True)
    for place, row in enumerate(map(TallyRow._make, values)):
        cid = cids[row.client]
        yield Leased(
            at=row.leased,
            cid=cid,
            version=row.base,
            task="train",
            patch=_PATCHES[row.patch],
            nbytes=row.down,
        )
        if row.verdict == NO_VERDICT:
            continue
        counts = None
        if counts_NC is not None and counts_NC[place, 0] >= 0:
            counts = counts_NC[place]
        yield Decided(
            at=row.at,
            cid=cid,
            seq=row.seq,
            digest="",
            base=row.base,
            staleness=row.staleness,
            verdict=_VERDICTS[row.verdict],
            weight=row.weight,
            reason="",
            samples=row.samples,
            steps=row.steps,
            update_norm=row.update_norm,
            memory_norm=row.memory_norm,
            oldest=None,
            counts=counts,
            loss=row.loss if math.isfinite(row.loss) else None,
            nbytes=row.up,
            payload=b"",
        )


def count_accepted(record: Tallied) -> int:
    """Returns how many of the updates were accepted.

    Raises:
        ValueError: the columns are damaged.
    """
    accepted = VERDICT_CODES[Verdict.ACCEPTED]
    return int(np.count_nonzero(columns_of(record)["verdict"] == accepted))


def _require_known(columns: Mapping[str, np.ndarray], clients: int) -> None:
    """Checks that rows name clients, patches and verdicts that there are."""
    verdicts = columns["verdict"]
    for name, values, most in (
        ("client", columns["client"], clients),
        ("patch", columns["patch"], len(_PATCHES)),
        ("verdict", verdicts[verdicts != NO_VERDICT], len(_VERDICTS)),
    ):
        if len(values) and not 0 <= values.min() <= values.max() < most:
            raise ValueError(f"a row of a tally names a {name} that there is not")
    at = columns["at"]
    if not (np.isfinite(columns["leased"]).all() and not np.isinf(at).any()):
        raise ValueError("a row of a tally has no time")


def in_order(records: Iterable[Row], cids: Sequence[str]) -> list[Row]:
    """Returns all records in the order of time, with those in tallies.

    Raises:
        ValueError: a tally is damaged.
    """
    whole: list[Row] = []
    for record in records:
        whole += (
            unpack_records(record, cids) if isinstance(record, Tallied) else [record]
        )
    return sorted(whole, key=lambda record: (record.at, _place(record)))


def _place(record: Row) -> int:
    """Orders records of one moment: updates, the version they make, then leases.

    All of them come after the clients that they are of.
    """
    if isinstance(record, Configured | Enrolled):
        return 0
    if isinstance(record, Decided):
        return 1
    return 2 if isinstance(record, Stepped) else 3
