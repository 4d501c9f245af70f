"""The settings of each client: the common ones, or those of its entry in overrides.

A client has the settings of the first entry that names it. So there are as many
different settings as entries, and one more, and each of them is checked when a config
is read: a client that joins later can meet no combination that nobody has seen.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import (
    ErrorDetails,
    InitErrorDetails,
    PydanticCustomError,
    PydanticKnownError,
)

from fedcore.clients._override import Override
from fedcore.clients.base import ClientAlgorithmConfig

Place = tuple[str | int, ...]


class ClientSettings:
    """The settings of all clients of a federation."""

    def __init__(self, common: ClientAlgorithmConfig) -> None:
        """Reads the overrides.

        Args:
            common: the settings of the clients that no entry names.

        Raises:
            ValidationError: an entry gives what cannot be.
        """
        self._overrides = common.overrides
        self.all = every(common)
        """The common settings, and those of each entry, all without overrides."""
        self._known: dict[str, int] = {}

    def number_of(self, client: str) -> int:
        """Returns the place in ``all`` of the settings of the client of this name."""
        if not self._overrides:
            return 0
        number = self._known.get(client)
        if number is None:
            entries = enumerate(self._overrides, start=1)
            number = next((i for i, entry in entries if entry.names(client)), 0)
            self._known[client] = number
        return number

    def of(self, client: str) -> ClientAlgorithmConfig:
        """Returns the settings of the client of this name."""
        return self.all[self.number_of(client)]

    def find_unused(self, clients: Sequence[str]) -> list[Override]:
        """Returns the entries that name none of these clients, or only others' ones."""
        used = {self.number_of(client) for client in clients}
        entries = enumerate(self._overrides, start=1)
        return [entry for number, entry in entries if number not in used]


def every(common: ClientAlgorithmConfig) -> tuple[ClientAlgorithmConfig, ...]:
    """Returns the common settings and those of each override, all without overrides.

    Raises:
        ValidationError: an override gives what cannot be; the places are those in the
            algorithm's settings.
    """
    if not common.overrides:
        return (common,)
    plain = common.model_copy(update={"overrides": ()})
    entries = enumerate(common.overrides)
    return (plain, *(override(plain, e.values, place_of(n)) for n, e in entries))


def in_common_steps(
    common: ClientAlgorithmConfig,
    own: ClientAlgorithmConfig,
    samples: int,
    steps: int,
    wanted: int | None,
) -> float:
    """Returns how many steps of the common size take as long as a client's task.

    A step takes as long as its samples are many: with half the batch, half as long.

    Args:
        common: the settings of the clients that no override names.
        own: those of the client.
        samples: how many it has.
        steps: how many steps the task has.
        wanted: how many samples the whole task uses; None: the usual number.
    """
    size = own.used_by(samples, 1) / common.used_by(samples, 1)
    return own.in_usual_steps(samples, steps, wanted) * size


def override(
    common: ClientAlgorithmConfig, values: Mapping[str, Any], place: Place
) -> ClientAlgorithmConfig:
    """Returns the settings of a client that has some of its own.

    Args:
        common: the settings of others.
        values: what it has in place of them, by field.
        place: where that stands, for errors.

    Raises:
        ValidationError: they cannot be.
    """
    for name in values:
        if name in common.shared:
            sentence = _same_for_all(common, name)
            raise mistake((*place, name), values[name], sentence)
    replaced = {
        name for group in common.either if group & values.keys() for name in group
    }
    given: dict[str, Any] = {
        name: getattr(common, name)
        for name in common.model_fields_set
        if name not in replaced
    }
    try:
        changed = type(common).model_validate({**given, **values})
    except ValidationError as error:
        raise _in_place(error, place, common) from None
    if _list_traits(changed) != _list_traits(common):
        raise mistake(
            place,
            dict(values),
            "what clients send beside the model and what they keep of their updates "
            "must be the same for all, and differs with these settings",
        )
    return changed


def _list_traits(config: ClientAlgorithmConfig) -> tuple[object, ...]:
    return config.companions, config.overlaps, config.counts_updates


def _same_for_all(common: ClientAlgorithmConfig, name: str) -> str:
    others = ", ".join(_own_fields(common))
    return (
        f"{name} is the same for all clients, since messages or the server depend on "
        f"it; a client may have its own {others}"
    )


def _own_fields(common: ClientAlgorithmConfig) -> list[str]:
    return sorted(type(common).model_fields.keys() - common.shared)


def place_of(number: int) -> Place:
    """Returns where an override, counted from 0, stands in the algorithm's settings."""
    return "client", "overrides", number


def mistake(place: Place, given: Any, sentence: str) -> ValidationError:
    """Returns the error of something that cannot stand at a place.

    Args:
        place: in the algorithm's settings.
        given: what stands there.
        sentence: what is wrong with it.
    """
    return _error(_detail(place, given, "value_error", sentence, {}))


def _in_place(
    error: ValidationError, place: Place, common: ClientAlgorithmConfig
) -> ValidationError:
    """Returns the same mistakes, at the place of the override."""
    return _error(*(_relocate(each, place, common) for each in error.errors()))


def _relocate(
    error: ErrorDetails, place: Place, common: ClientAlgorithmConfig
) -> InitErrorDetails:
    loc, kind, context = (*place, *error["loc"]), error["type"], error.get("ctx", {})
    if kind == "extra_forbidden" and len(error["loc"]) == 1:
        names = ", ".join(["clients", *_own_fields(common)])
        kind, context = "unknown_setting", {"names": names}
    return _detail(loc, error["input"], kind, error["msg"], context)


def _detail(
    loc: Place,
    given: Any,
    kind: str,
    sentence: str,
    context: Mapping[str, Any],
) -> InitErrorDetails:
    if kind == "value_error" and not context:
        context = {"error": ValueError(sentence)}
    try:
        PydanticKnownError(kind, dict(context))  # type: ignore[arg-type]
    except KeyError:  # a role's own kind of mistake
        context = {**context, "sentence": sentence}
        custom = PydanticCustomError(kind, "{sentence}", context)
        return InitErrorDetails(type=custom, loc=loc, input=given)
    return InitErrorDetails(type=kind, loc=loc, input=given, ctx=dict(context))


def _error(*details: InitErrorDetails) -> ValidationError:
    return ValidationError.from_exception_data("overrides", list(details))
