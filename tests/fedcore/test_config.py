"""Methods, and the unions that find them."""

from abc import abstractmethod
from typing import Annotated, ClassVar, Literal

import pytest
from pydantic import ValidationError

from fedcore.compressors import CompressorConfig
from fedcore.config import Config, Count, Duration, Method, OneOf, kind_of, methods


class Toy(Method):
    """A role of these tests."""

    role: ClassVar[str] = "toy"

    @abstractmethod
    def play(self) -> str:
        """What it does."""


class Ball(Toy):
    """A method of it."""

    kind: Literal["ball"] = "ball"
    size: Count = 1

    def play(self) -> str:
        return f"roll {self.size}"


class Frame(Toy):
    """What methods have in common is no method."""


class Kite(Frame):
    """A method below a frame."""

    kind: Literal["kite"] = "kite"
    string: Duration = 10.0

    def play(self) -> str:
        return "fly"


AnyToy = Annotated[Toy, OneOf()]


class Bag(Toy):
    """A method around another one."""

    kind: Literal["bag"] = "bag"
    inner: AnyToy = Ball()

    def play(self) -> str:
        return self.inner.play()


class Box(Config):
    """Settings that choose a method."""

    toy: AnyToy = Ball()


def test_a_role_knows_its_methods_and_leaves_out_their_frames() -> None:
    assert set(map(kind_of, methods(Toy))) >= {"ball", "kite", "bag"}
    assert Frame not in methods(Toy)
    assert not set(methods(Toy)) & set(methods(CompressorConfig))
    assert kind_of(Kite) == "kite"


def test_the_kind_chooses_the_method() -> None:
    assert Box.model_validate({"toy": {"kind": "kite", "string": 3}}).toy == Kite(
        string=3
    )
    assert Box().toy == Ball(size=1)


def test_a_method_that_a_user_defines_later_joins() -> None:
    assert Box.model_validate({"toy": {"kind": "bag"}}).toy == Bag(inner=Ball())

    class Doll(Toy):
        """Made after its role was used."""

        kind: Literal["doll"] = "doll"

        def play(self) -> str:
            return "sleep"

    doll = {"kind": "doll"}
    assert Box.model_validate({"toy": doll}).toy == Doll()
    inside = Box.model_validate({"toy": {"kind": "bag", "inner": doll}})
    assert inside.toy == Bag(inner=Doll())
    assert Box.model_validate_json(inside.model_dump_json()) == inside


def test_an_unknown_kind_is_answered_with_the_kinds_that_there_are() -> None:
    with pytest.raises(ValidationError, match="unknown toy bal; kinds: bag, ball, "):
        Box.model_validate({"toy": {"kind": "bal"}})


@pytest.mark.parametrize("toy", [{"size": 1}, {}, "ball", None, 3])
def test_a_kind_must_be_named(toy: object) -> None:
    with pytest.raises(ValidationError, match="needs a kind; kinds: bag, ball, "):
        Box.model_validate({"toy": toy})


@pytest.mark.parametrize(
    "toy",
    [
        {"kind": "ball", "size": 0},
        {"kind": "ball", "sise": 1},
        {"kind": "kite", "string": 0},
        {"kind": "kite", "string": float("inf")},
        {"kind": "kite", "size": 1},
    ],
)
def test_settings_out_of_range_and_typos_are_refused(toy: object) -> None:
    with pytest.raises(ValidationError):
        Box.model_validate({"toy": toy})


def test_settings_cannot_be_changed_and_can_be_compared() -> None:
    box = Box()
    with pytest.raises(ValidationError, match="frozen"):
        box.toy = Kite()  # type: ignore[misc]
    assert box == Box(toy=Ball(size=1)) != Box(toy=Ball(size=2))
