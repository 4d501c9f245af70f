"""Settings that a client chooses itself, where the federation lets it."""

from pathlib import Path
from typing import Any

import pytest
from fedwire.connect import parse_address
from pydantic import ValidationError

from fedclient.state.store import ClientStore
from fedclient.work.choices import read_choices, with_choices
from fedclient.work.membership import Identity, Membership
from fedcore.clients import LocalSGD, Override, every
from fedcore.errors import ConfigError
from fedcore.recipes import FedBuff, FedNova, Gaia
from tests.fedclient.test_member import workload
from tests.served import served

OPEN = LocalSGD(steps=20, may_choose=("batch", "epochs", "frozen", "momentum"))


def refusal(config: Any, *items: str) -> str:
    with pytest.raises(ConfigError) as raised:
        with_choices(config, read_choices(items))
    return str(raised.value)


def test_what_may_be_chosen_takes_the_place_of_the_servers() -> None:
    config = FedBuff(client=OPEN)
    own = with_choices(config, read_choices(["batch=8", "epochs=2", "frozen=[a*]"]))
    assert isinstance(own.client, LocalSGD)
    assert (own.client.batch, own.client.epochs, own.client.steps) == (8, 2, None)
    assert own.client.frozen == ("a*",)
    assert with_choices(config, {}) is config


def test_other_settings_are_refused() -> None:
    assert refusal(FedBuff(client=OPEN), "lr=0.2") == (
        "--choose lr: this federation lets the client choose batch, epochs, frozen, "
        "momentum alone (algorithm.client.may_choose)"
    )
    assert "lets the client choose nothing" in refusal(FedBuff(), "batch=8")
    assert refusal(FedBuff(client=OPEN), "batch=0").startswith(
        "--choose batch: Input should be greater than or equal to 1"
    )
    assert refusal(FedBuff(), "batch") == (
        "--choose batch: expected setting=value, as in batch=8"
    )
    assert "'[8' is not a YAML value" in refusal(FedBuff(), "batch=[8")


def test_a_choice_must_fit_the_recipe() -> None:
    free = LocalSGD(may_choose=("momentum", "keep_momentum"))
    for recipe in (Gaia(client=free), FedBuff(client=free)):
        own = with_choices(recipe, {"momentum": 0.9, "keep_momentum": True})
        assert own.client.mixes_tasks
    with pytest.raises(ValidationError, match="does not know those of settings that"):
        FedNova(client=free)


def test_only_settings_can_be_left_to_clients() -> None:
    for name in ("kind", "batches", "may_choose", "overrides"):
        with pytest.raises(ValidationError, match=f"{name!r} cannot be left to"):
            LocalSGD(may_choose=(name,))


def test_an_entry_may_let_its_clients_alone_choose() -> None:
    entry = Override.model_validate({"clients": "a", "may_choose": ["lr"]})
    common, own = every(LocalSGD(overrides=(entry,)))
    assert (common.may_choose, own.may_choose) == ((), ("lr",))


def test_a_client_trains_with_what_it_has_chosen(tmp_path: Path) -> None:
    overrides = [
        {"clients": "ann", "batch": 4, "may_choose": ["lr"]},
        {"clients": "b*", "batch": 2},
    ]
    client = {"kind": "local_sgd", "overrides": overrides}
    algorithm = {"kind": "fed_buff", "client": client}
    with served(tmp_path, algorithm=algorithm) as server:

        def settings(name: str, *items: str) -> Any:
            model = workload().flat()
            member = Membership(
                parse_address(server.address),
                model,
                ClientStore(tmp_path / name),
                Identity(name=name),
                1.0,
                choices=read_choices(items),
            )
            try:
                member.enrol()
                return member.algorithm.config.client
            finally:
                member.close()

        assert settings("ann", "lr=0.5") == LocalSGD(
            batch=4, lr=0.5, may_choose=("lr",)
        )
        assert settings("bob") == LocalSGD(batch=2)
        assert settings("cat") == LocalSGD()
        with pytest.raises(ConfigError, match="lets the client choose nothing"):
            settings("dan", "lr=0.5")
