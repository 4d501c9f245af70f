"""What a power cut may leave of a disk.

The rules are those that POSIX gives, and no file system's kindness is counted on:

- what was written to a file is there after an fsync or fdatasync of that file;
- a name is there, or gone, after an fsync of the folder that it is in, and a folder
  is found only if its own name is there: a file that was synced can be lost;
- of all else any part may be there, in any order: a name without its content, a size
  without its data, some sectors of a write, zeros or garbage in the others.

Bytes that a write did not touch are never harmed, and a rename is there or is not.
SQLite assumes the same ("powersafe overwrite").
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.power.recorder import Kind, Operation

SECTOR = 512
Files = dict[str, bytes | None]  # by path; None is a folder


@dataclass(slots=True, eq=False)
class Change:
    """A write, a truncation or a growth that is not durable yet."""

    kind: Kind
    offset: int
    data: bytes
    forfeit: bool = False  # an ignored sync would have made it durable


@dataclass(slots=True, eq=False)
class Naming:
    """A change of names in a folder that is not durable yet."""

    names: dict[str, "Node | None"]
    forfeit: bool = False


@dataclass(slots=True, eq=False)
class Node:
    """A file or a folder: what is durable of it, and what is not yet."""

    folder: bool
    birth: str  # its first name
    content: bytearray = field(default_factory=bytearray)
    pending: list[Change] = field(default_factory=list)
    names: dict[str, "Node"] = field(default_factory=dict)  # as programs see them
    durable: dict[str, "Node"] = field(default_factory=dict)
    namings: list[Naming] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Choice:
    """How a cut treats what is not durable: the probabilities of each outcome."""

    keep: float  # a change is there whole
    tear: float  # a change is there in part
    names: float  # a change of names is there
    forfeit: bool = True  # what an ignored sync would have saved is treated so too


EVERYTHING = Choice(keep=1.0, tear=0.0, names=1.0)
NOTHING = Choice(keep=0.0, tear=0.0, names=0.0)
NAMES_ONLY = Choice(keep=0.0, tear=0.0, names=1.0)
DATA_ONLY = Choice(keep=1.0, tear=0.0, names=0.0)
TORN = Choice(keep=0.0, tear=1.0, names=1.0)
MIXED = Choice(keep=0.4, tear=0.3, names=0.5)
LIKELY = Choice(keep=0.8, tear=0.1, names=0.9)
RARELY = Choice(keep=0.15, tear=0.2, names=0.15)
CHOICES = (EVERYTHING, NOTHING, NAMES_ONLY, DATA_ONLY, TORN, MIXED, LIKELY, RARELY)


class Disk:
    """A disk to which the operations of a log are applied one by one."""

    def __init__(
        self,
        ignored: Callable[[Node], bool] | None = None,
        *,
        forgets: bool = True,
    ) -> None:
        """A disk that is empty.

        Args:
            ignored: says whether a sync does nothing, as if it were not called.
            forgets: after a sync that failed, the system forgets what it could not
                write: a later sync says that all is well, and the data is gone.
        """
        self._ignored, self._forgets = ignored, forgets
        self.root = Node(folder=True, birth="")
        self._nodes: dict[int, Node] = {}
        self.owing: set[Node] = set()  # what ignored syncs would have made durable

    def load(self, files: Files) -> None:
        """Everything in here is durable: the disk that a machine started with."""
        for path in sorted(files):
            content = files[path]
            node = Node(folder=content is None, birth=path)
            node.content[:] = content or b""
            parent, name = self._parent(path)
            parent.names[name] = parent.durable[name] = node

    def apply(self, operation: Operation) -> None:
        """Takes the next operation of the log."""
        kind = operation.kind
        if kind in (Kind.CREATE, Kind.MKDIR):
            node = Node(folder=kind is Kind.MKDIR, birth=operation.path)
            self._nodes[operation.inode] = node
            if operation.path:
                self._name(operation.path, node)
            else:
                self.root = node
        elif kind in (Kind.UNLINK, Kind.RMDIR):
            self._name(operation.path, None)
        elif kind is Kind.RENAME:
            self._rename(operation.path, operation.other)
        elif kind in (Kind.WRITE, Kind.TRUNCATE, Kind.EXTEND):
            node = self._node(operation)
            node.pending.append(Change(kind, operation.offset, operation.data))
        elif kind is Kind.SYNC:
            self._sync(self._node(operation))
        elif kind is Kind.SYNC_FAILED:
            self._lose(self._node(operation))
        elif kind is Kind.OPEN:
            self._open(operation)

    def _open(self, operation: Operation) -> None:
        """A file that was there; under another name if Rust renamed it.

        What calls the kernel without libc is not recorded. Safetensors renames so.
        """
        node = self._nodes.get(operation.inode)
        if node is not None and operation.path:
            folder, name = self._parent(operation.path)
            if folder.names.get(name) is not node:
                old = next(each for each in folder.names if folder.names[each] is node)
                self._rename(
                    f"{operation.path.rpartition('/')[0]}/{old}", operation.path
                )
        self._nodes[operation.inode] = self._find(operation.path)

    def _node(self, operation: Operation) -> Node:
        if operation.inode in self._nodes:
            return self._nodes[operation.inode]
        raise AssertionError(f"a file that nobody made: {operation}")

    def _find(self, path: str) -> Node:
        node = self.root
        for part in path.split("/"):
            node = node.names[part] if part else node
        return node

    def _parent(self, path: str) -> tuple[Node, str]:
        folder, _, name = path.rpartition("/")
        return self._find(folder), name

    def _name(self, path: str, node: Node | None) -> None:
        parent, name = self._parent(path)
        if node is None:
            del parent.names[name]
        else:
            parent.names[name] = node
        parent.namings.append(Naming({name: node}))

    def _rename(self, path: str, other: str) -> None:
        (parent, old), (to, new) = self._parent(path), self._parent(other)
        assert parent is to, f"a rename from one folder to another: {path}, {other}"
        node = parent.names.pop(old)
        parent.names[new] = node
        parent.namings.append(Naming({old: None, new: node}))

    def _sync(self, node: Node) -> None:
        if self._ignored is not None and self._ignored(node):
            for change in node.pending:
                change.forfeit = True
            for naming in node.namings:
                naming.forfeit = True
            if node.pending or node.namings:
                self.owing.add(node)
            return
        self.owing.discard(node)
        for change in node.pending:
            _write(node.content, change)
        node.pending.clear()
        for naming in node.namings:
            _rename(node.durable, naming)
        node.namings.clear()

    def _lose(self, node: Node) -> None:
        if self._forgets:
            node.pending.clear()

    # --------------------------------------------------------------- after the cut

    def whole(self) -> Files:
        """All files as programs see them."""
        return self.cut(EVERYTHING, random.Random(0))

    def cut(self, choice: Choice, rng: random.Random) -> Files:
        """One disk that a power cut may leave now."""
        files: Files = {}
        self._collect(self.root, "", choice, rng, files)
        return files

    def _collect(
        self, folder: Node, path: str, choice: Choice, rng: random.Random, files: Files
    ) -> None:
        names = dict(folder.durable)
        for naming in folder.namings:
            if (choice.forfeit or not naming.forfeit) and rng.random() < choice.names:
                _rename(names, naming)
        for name, node in names.items():
            place = f"{path}/{name}" if path else name
            if node.folder:
                files[place] = None
                self._collect(node, place, choice, rng, files)
            elif node.pending:
                files[place] = _content(node, choice, rng)
            else:
                files[place] = bytes(node.content)


def _rename(names: dict[str, Node], naming: Naming) -> None:
    for name, node in naming.names.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def _content(node: Node, choice: Choice, rng: random.Random) -> bytes:
    content = bytearray(node.content)
    for change in node.pending:
        if change.forfeit and not choice.forfeit:
            continue
        luck = rng.random()
        if luck < choice.keep:
            _write(content, change)
        elif luck < choice.keep + choice.tear:
            _tear(content, change, rng)
    return bytes(content)


def _write(content: bytearray, change: Change) -> None:
    if change.kind is Kind.TRUNCATE:
        _resize(content, change.offset)
    elif change.kind is Kind.EXTEND:
        _resize(content, max(len(content), change.offset))
    else:
        end = change.offset + len(change.data)
        if len(content) < end:
            _resize(content, end)
        content[change.offset : end] = change.data


def _resize(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


def _tear(content: bytearray, change: Change, rng: random.Random) -> None:
    """The change is there in part: a size without data, or some of its sectors."""
    if change.kind is not Kind.WRITE:
        return
    end = change.offset + len(change.data)
    if rng.random() < 0.5:
        end = rng.randint(change.offset, end)  # not all of the new size
    if len(content) < end:
        _resize(content, end)
    for start, stop in _sectors(change.offset, end):
        piece = change.data[start - change.offset : stop - change.offset]
        luck = rng.random()
        if luck < 0.5:
            content[start:stop] = piece
        elif luck < 0.6:
            content[start:stop] = bytes(stop - start)
        elif luck < 0.7:
            content[start:stop] = rng.randbytes(stop - start)
        elif luck < 0.75:
            half = (stop - start) // 2
            content[start : start + half] = piece[:half]


def _sectors(start: int, end: int) -> Iterable[tuple[int, int]]:
    while start < end:
        stop = min(end, start - start % SECTOR + SECTOR)
        yield start, stop
        start = stop


def materialise(files: Files, folder: Path) -> None:
    """Makes these files in an empty folder."""
    for path in sorted(files):  # a folder comes before what is in it
        content = files[path]
        if content is None:
            (folder / path).mkdir(mode=0o700)
        else:
            (folder / path).write_bytes(content)
            (folder / path).chmod(0o600)
