"""Power cuts: a log, a moment in it, a disk that may be left, and what starts there."""

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.power.disk import (
    CHOICES,
    Choice,
    Disk,
    Files,
    Node,
    materialise,
)
from tests.power.judge import Judge
from tests.power.promises import Promises, parse
from tests.power.recorder import (
    Kind,
    Operation,
    memory_folder,
    read_log,
    run_recorded,
)

GO_ON = 0.1  # share of the cuts after which the run also goes on
# Stories in which a process ends when a sync fails. The system may then forget what it
# could not write and still show it to the next process, which cannot know; against
# that there is no defence here.
ENDS = ("faults",)
# All is there but what an ignored sync would have made durable.
SPITEFUL = Choice(keep=1.0, tear=0.0, names=1.0, forfeit=False)


class Cut(NamedTuple):
    """A moment and a disk that broke a promise."""

    moment: int
    after: str  # the operation before it
    choice: Choice
    wrong: str


@dataclass
class Outcome:
    """What a number of cuts showed."""

    cuts: int = 0
    after: Counter[str] = field(default_factory=Counter)  # by the operation before it
    violations: list[Cut] = field(default_factory=list)


@dataclass
class Recording:
    """A story that was recorded: its operations, and where it took place."""

    story: str
    root: Path
    operations: list[Operation]

    @classmethod
    def of(
        cls, story: str, seed: int, place: Path, mistake: str | None = None
    ) -> "Recording":
        """Records a story in a folder of its own below ``place``."""
        name = f"{story}-{seed}-{mistake or ''}"
        root, log = place / name, place / f"{name}.log"
        root.mkdir(parents=True)
        arguments = [story, str(root), str(seed)]
        if mistake:
            arguments += ["--mistake", mistake]
        run_recorded("tests.power.drive", arguments, root, log)
        operations = list(read_log(log))
        for operation in operations:
            if operation.kind is Kind.MARK:
                told = parse(operation.data)
                assert told["what"] != "wrong", told["why"]
        log.unlink()
        _empty(root)
        return cls(story, root, operations)

    def sites(self) -> set[str]:
        """The places in our code from which something was synced."""
        return {
            label
            for operation in self.operations
            if operation.kind is Kind.MARK
            for label in parse(operation.data).get("sites", ())
        }

    def moments(self, disk: Disk) -> Iterator[tuple[int, Operation, Promises]]:
        """Applies one operation after the other to the disk."""
        promises = Promises()
        for number, operation in enumerate(self.operations):
            if operation.kind is Kind.MARK:
                promises.take(parse(operation.data))
            disk.apply(operation)
            yield number, operation, promises

    def cut(
        self,
        per_moment: float,
        seed: int,
        *,
        ignored: Collection[str] = (),
        choices: Sequence[Choice] = CHOICES,
        most: int = 3,
    ) -> Outcome:
        """Cuts the power after every operation.

        Args:
            per_moment: how many disks are tried there, on average.
            seed: of the choices.
            ignored: sites of ours and files of SQLite whose syncs do nothing.
            choices: what may become of things that are not durable.
            most: stop after so many violations.
        """
        outcome, judge, rng = Outcome(), Judge(), random.Random(seed)
        ignoring = _Ignoring(ignored)
        disk = Disk(ignoring if ignored else None, forgets=self.story not in ENDS)
        for number, operation, promises in self.moments(disk):
            ignoring.hear(operation)
            if operation.kind is Kind.OPEN or (ignored and not disk.owing):
                continue  # nothing is other than before, or with the sync
            times = int(per_moment) + (rng.random() < per_moment % 1)
            for choice in rng.choices(choices, k=times):
                outcome.cuts += 1
                outcome.after[operation.kind.name] += 1
                wrong = self.judge(judge, disk.cut(choice, rng), promises, rng)
                if wrong is not None:
                    cut = Cut(number, _brief(operation), choice, wrong)
                    outcome.violations.append(cut)
                    if len(outcome.violations) >= most:
                        return outcome
        return outcome

    def judge(
        self, judge: Judge, files: Files, promises: Promises, rng: random.Random
    ) -> str | None:
        """Puts the files where they were, and starts on them."""
        _empty(self.root)
        materialise(files, self.root)
        return judge.check(promises, go_on=rng.random() < GO_ON)


class _Ignoring:
    """Which syncs are done as if they were not called."""

    def __init__(self, labels: Collection[str]) -> None:
        self._labels = labels
        self._ours: frozenset[str] | None = None  # the sites of the sync to come

    def hear(self, operation: Operation) -> None:
        if operation.kind is Kind.MARK:
            sites = parse(operation.data).get("sites")
            self._ours = None if sites is None else frozenset(sites)
        elif operation.kind is Kind.SYNC:
            self._ours = None

    def __call__(self, node: Node) -> bool:
        if self._ours is not None:
            return not self._ours.isdisjoint(self._labels)
        return sqlite_label(node) in self._labels


def sqlite_label(node: Node) -> str:
    """How a sync by SQLite is called."""
    if node.folder:
        return "SQLite: a folder"
    name = node.birth.rpartition("/")[2]
    return f"SQLite: {name}"


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _brief(operation: Operation) -> str:
    if operation.kind is Kind.MARK:
        return str(parse(operation.data)["what"])
    return f"{operation.kind.name} {operation.path or operation.inode}"


@contextmanager
def recorded(story: str, seed: int, mistake: str | None = None) -> Iterator[Recording]:
    """A story that was recorded; its folder lasts as long as the block."""
    place = Path(tempfile.mkdtemp(prefix="power-", dir=memory_folder()))
    try:
        yield Recording.of(story, seed, place, mistake)
    finally:
        shutil.rmtree(place)
