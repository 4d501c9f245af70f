"""Settings per client: the first entry of ``overrides`` that names a client counts."""

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from fedcore.clients import (
    ClientAlgorithmConfig,
    ClientSettings,
    LocalAdam,
    LocalSGD,
    every,
    in_common_steps,
)
from fedcore.config import kind_of, methods
from fedcore.errors import ConfigError
from fedcore.lr_schedules import Cosine, Linear
from fedcore.params import ParamSpec
from fedcore.recipes import FedAvg, FedBuff, FedNova
from tests.fedcore.coordinator.desk import Desk

MODEL = ParamSpec.of({"weight": np.zeros(2, np.float32)})


def common(*overrides: Any, **settings: Any) -> LocalSGD:
    return LocalSGD.model_validate({"overrides": overrides, **settings})


def refusal(client: dict[str, Any], recipe: type = FedBuff) -> list[tuple[Any, str]]:
    with pytest.raises(ValidationError) as raised:
        recipe(client={"kind": "local_sgd", **client})
    return [(error["loc"], error["msg"]) for error in raised.value.errors()]


def test_the_first_entry_that_names_a_client_counts() -> None:
    settings = ClientSettings(
        common(
            {"clients": ["phone-1?", "tablet"], "lr": 0.5},
            {"clients": "phone-*", "lr": 0.2, "batch": 4},
            momentum=0.9,
        )
    )
    assert settings.of("server-room") == LocalSGD(momentum=0.9)
    assert settings.of("phone-1") == LocalSGD(momentum=0.9, lr=0.2, batch=4)
    for name in ("phone-12", "tablet"):
        assert settings.of(name) == LocalSGD(momentum=0.9, lr=0.5)
    assert settings.of("Tablet") == LocalSGD(momentum=0.9)  # as they are written
    assert not any(each.overrides for each in settings.all)


def test_entries_that_no_client_has_are_known() -> None:
    first, second, third = (
        {"clients": pattern, "lr": 0.5} for pattern in ("a*", "ab", "c")
    )
    settings = ClientSettings(common(first, second, third))
    unused = settings.find_unused(["a", "ab", "b"])
    assert [entry.clients for entry in unused] == [("ab",), ("c",)]


def test_an_override_of_epochs_takes_the_place_of_steps() -> None:
    given = common({"clients": "a", "epochs": 3}, steps=20)
    assert every(given)[1] == LocalSGD(epochs=3)
    late = LocalSGD(schedule=Cosine(until=9)).model_dump() | {
        "overrides": [{"clients": "a", "schedule": {"kind": "linear", "until": 5}}]
    }
    _, own = every(LocalSGD.model_validate(late))
    assert own == LocalSGD(schedule=Linear(until=5))


def test_what_is_sent_as_json_comes_back_equal() -> None:
    given = common({"clients": "a-[0-4]", "schedule": {"kind": "cosine", "until": 9}})
    assert LocalSGD.model_validate_json(given.model_dump_json()) == given
    assert every(given)[1].rate(9) == pytest.approx(0.01)


@pytest.mark.parametrize("pattern", ["a-[0-4", "[", "[!]", "x[]"])
def test_a_bracket_that_is_not_closed_is_refused(pattern: str) -> None:
    assert refusal({"overrides": [{"clients": pattern, "lr": 1}]}) == [
        (
            ("client", "overrides", 0, "clients", 0),
            f"Value error, pattern {pattern!r}: the bracket is not closed; expected * "
            "for any text, ? for one character and [0-4] for one of some",
        )
    ]


@pytest.mark.parametrize(
    ("entry", "where", "sentence"),
    [
        ({"clients": "a", "lr": -1}, ("lr",), "Input should be greater than 0"),
        ({"clients": "a", "nesterov": True}, (), "nesterov needs a momentum above 0"),
        (
            {"clients": "a", "steps": 3, "epochs": 1},
            (),
            "give steps or epochs, not both",
        ),
        ({"clients": [], "lr": 1}, (), "names no clients"),
        ({"clients": "a"}, (), "says nothing that differs"),
        ({"clients": "a", "kind": "fed_prox"}, ("kind",), "is the same for all"),
        ({"clients": "a", "overrides": []}, ("overrides",), "is the same for all"),
    ],
)
def test_a_mistake_is_told_at_its_place(
    entry: dict[str, Any], where: tuple[str, ...], sentence: str
) -> None:
    fine = {"clients": "b", "lr": 0.5}
    ((loc, message),) = refusal({"overrides": [fine, entry]})
    assert loc == ("client", "overrides", 1, *where)
    assert sentence in message


@pytest.mark.parametrize(
    ("kind", "name"), [("fed_dyn", "alpha"), ("ds_sync", "groups"), ("ds_sync", "seed")]
)
def test_what_the_server_depends_on_is_the_same_for_all(kind: str, name: str) -> None:
    (method,) = (m for m in methods(ClientAlgorithmConfig) if kind_of(m) == kind)
    given = method.model_validate({"overrides": [{"clients": "a", name: 1}]})
    assert isinstance(given, ClientAlgorithmConfig)
    with pytest.raises(ValidationError, match=f"{name} is the same for all clients"):
        every(given)


def test_what_is_sent_and_kept_must_not_differ() -> None:
    class Twofold(LocalSGD):
        """Has a companion, if it is told to."""

        kind: Any = "twofold"
        is_withdrawn = True
        second: bool = False

        @property
        def companions(self) -> tuple[str, ...]:
            return ("second",) * self.second

    entry = {"clients": "a", "second": True}
    with pytest.raises(ValidationError, match="must be the same for all"):
        every(Twofold.model_validate({"overrides": [entry]}))


def test_each_client_must_fit_the_recipe_and_the_model() -> None:
    kept = {"clients": "a", "momentum": 0.9, "keep_momentum": True}
    ((loc, message),) = refusal({"overrides": [kept]}, FedNova)
    assert loc == ("client", "overrides", 0)
    assert "fed_nova counts the steps of one task" in message
    recipe = FedAvg(client=common({"clients": ["a", "b*"], "frozen": ["conv*"]}))
    with pytest.raises(ConfigError, match=r"client.overrides.0 \(a, b\*\): client.fro"):
        recipe.build(MODEL)


def test_the_server_knows_what_each_client_can_have_done() -> None:
    client = common({"clients": "fast", "steps": 20}, steps=5)
    desk = Desk(FedNova(buffer=2, client=client))
    desk.enrol("slow", "fast")
    reasons = {}
    for name in ("slow", "fast"):
        desk.push(name, 1, base=0, steps=20)
        reasons[name] = desk.ack.reason
    assert reasons == {
        "slow": "counts for 5 of its 20 steps, more than it can be given",
        "fast": "",
    }


def test_a_client_is_told_its_own_settings_alone() -> None:
    client = common({"clients": "a", "lr": 0.5}, {"clients": "*", "batch": 2})
    algorithm = FedAvg(client=client).build(MODEL)
    assert algorithm.of_client("a").config == FedAvg(client=LocalSGD(lr=0.5))
    assert algorithm.of_client("b").clients.of("a") == LocalSGD(batch=2)
    plain = FedAvg(client=LocalAdam()).build(MODEL)
    assert plain.of_client("a") is plain


def test_half_the_batch_takes_half_as_long() -> None:
    usual, small = LocalSGD(steps=10, batch=16), LocalSGD(steps=20, batch=8)
    assert in_common_steps(usual, usual, 100, 10, None) == 10
    assert in_common_steps(usual, small, 100, 20, None) == 10
    assert in_common_steps(usual, small, 4, 20, None) == 20  # it has no more samples
