"""The public model of a run at a version in its past."""

from collections.abc import Iterable, Iterator

from fedcore.coordinator.events import Stepped
from fedcore.errors import CorruptJournalError, JournalError
from fedcore.params import digest
from fedcore.typing import Vector
from fedrun.config import parse_config
from fedrun.files import load_model, load_version
from fedrun.journal.disk import making_sense_of
from fedrun.journal.journal import Journal
from fedrun.journal.recover import WITHOUT_UPDATES, recover_from


def public_model(journal: Journal, version: int) -> Vector:
    """Returns the model that clients received as this version.

    It is computed from the updates, where the journal holds them; otherwise it must be
    in a snapshot or among the exported models.

    Raises:
        JournalError: there was no such version, or it is not kept; says which are.
        CorruptJournalError: a kept model differs from the published one.
    """
    made = {
        entry.record.version: (entry.number, entry.record.digest)
        for entry in journal.store.find(Stepped.__name__)
        if isinstance(entry.record, Stepped)
    }
    if version == 0:
        return journal.initial()[1]
    if version not in made:
        raise JournalError(
            f"{journal.folder} never published version {version}; it published the "
            f"versions {in_words([0, *made])}"
        )
    number, expected = made[version]
    first = journal.store.first_payload()
    start = journal.newest_snapshot(number)
    has_updates = not journal.store.read_fact(WITHOUT_UPDATES)
    if has_updates and (start or 0) >= min(first, number):
        return recover_from(journal, start, number).coordinator.state.published.public_D
    for known, model_D in _read_models(journal):
        if known == version:
            if digest(model_D) != expected:
                raise CorruptJournalError(
                    f"{journal.folder}: version {version} should have digest "
                    f"{expected}, the one that is kept has {digest(model_D)}"
                )
            return model_D
    there = {0, *(known for known, _ in _read_models(journal))}
    if has_updates:
        there |= {known for known, (number, _) in made.items() if number > first}
    raise JournalError(
        f"{journal.folder} does not keep version {version}; it keeps the versions "
        f"{in_words(there)}"
    )


def _read_models(journal: Journal) -> Iterator[tuple[int, Vector]]:
    """Yields the models that lie in files, each with its version."""
    for number in journal.snapshots.numbers():
        scalars, arrays = journal.snapshots.load(number)
        with making_sense_of(str(journal.snapshots.path(number))):
            names = {f"base.{version}": version for version in scalars["bases"]}
            names["public"] = scalars["version"]
            found = [(int(v), arrays[name]) for name, v in names.items()]
        yield from found
    if _has_companions(journal):
        return  # which those files leave out
    for which in ("best", "last"):
        path = journal.folder / "models" / f"{which}.safetensors"
        if path.is_file():
            yield load_version(path), load_model(path)[1]


def _has_companions(journal: Journal) -> bool:
    """Returns whether versions hold more than the model."""
    recorded = journal.configurations()[-1][1]
    return bool(parse_config(recorded.config).algorithm.client.companions)


def in_words(numbers: Iterable[int]) -> str:
    """Returns whole numbers as text, with runs shortened: ``0, 4 and 7 to 12``."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    words = [
        f"{part[0]} to {part[-1]}" if len(part) > 2 else ", ".join(map(str, part))
        for part in parts
    ]
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
