"""Beside one hostile peer, honest clients work on as if it were not there."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from benchmarks.hostile.scenarios import SCENARIOS, TOGETHER
from benchmarks.hostile.stage import HONEST, Stage, Trust

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]
SECONDS = 1.2  # of a window
TRIES = 4  # a slow moment of the machine is no attack
SLOWED = 0.5  # to what; benchmarks.hostile measures it exactly
GROWN = 1.5
ALONE = {"pushes", "half_closed", "control", "dear", "impostor"}
# A peer with many identities costs what they cost: benchmarks.hostile says how much.
CROWDS = {"enrolments", "crowd_of_pulls", "crowd_of_uploads"}
ATTACKS = [name for name in SCENARIOS if name not in ALONE | CROWDS]
BY_STRANGERS = ["unread", "trickle", "silent"]
CERTIFIED = ["later_state", "names", "impostor", "appointed"]

Stages = Callable[..., Stage]


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stages]:
    """Federations that are shared by tests, as long as their clients are well."""
    made: dict[tuple[bool, bool], Stage] = {}
    with ExitStack() as stack:

        def get(*, certified: bool = False, stranger: bool = False) -> Stage:
            known = made.get((certified, stranger))
            if known is None or not known.server.is_running or known.harmed():
                folder = tmp_path_factory.mktemp("stage")
                trust = issued(folder) if certified else None
                stage = Stage(folder / "run", TOGETHER, trust=trust, stranger=stranger)
                made[certified, stranger] = stack.enter_context(stage)
            return made[certified, stranger]

        yield get


def issued(folder: Path) -> Trust:
    """Certificates of a throw-away authority for everybody."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    for name in ("localhost", "hostile", *(f"client-{i}" for i in range(HONEST))):
        certificate = authority.issue_cert(name)
        certificate.cert_chain_pems[0].write_to_path(str(folder / f"{name}.pem"))
        certificate.private_key_pem.write_to_path(str(folder / f"{name}.key"))
    return Trust(folder)


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(attack, marks=pytest.mark.quick if attack == "silent" else ())
        for attack in ATTACKS
    ],
)
def test_a_client_that_attacks_harms_nobody(attack: str, stages: Stages) -> None:
    withstands(stages(), attack)


@pytest.mark.parametrize("attack", BY_STRANGERS)
def test_a_stranger_that_attacks_harms_nobody(attack: str, stages: Stages) -> None:
    withstands(stages(stranger=True), attack)


@pytest.mark.parametrize("attack", CERTIFIED)
def test_a_certificate_gives_no_power_over_others(attack: str, stages: Stages) -> None:
    withstands(stages(certified=True), attack)


@pytest.mark.parametrize("attack", ["pushes", "dear", "impostor"])
def test_other_federations_are_not_harmed_either(attack: str, tmp_path: Path) -> None:
    scenario = SCENARIOS[attack]
    with Stage(tmp_path / "run", replace(scenario, delay=scenario.delay / 2)) as stage:
        withstands(stage, attack)


def test_what_is_left_of_all_attacks_is_sound(stages: Stages) -> None:
    end = stages().stop(anew=False)
    assert end.status == 0
    assert end.is_sound, end.verified


def withstands(stage: Stage, attack: str, seconds: float = SECONDS) -> None:
    """The honest clients of a federation work on during an attack, and after it."""
    epochs, rates = stage.epochs(), []
    for _ in range(TRIES):
        calm = stage.window(seconds)
        attacked = stage.window(seconds, attack)
        assert stage.server.is_running, stage.server.tail()
        assert not stage.harmed()
        assert attacked.megabytes < GROWN * stage.megabytes
        rates.append((calm.rate, attacked.rate))
        if attacked.rate > SLOWED * calm.rate:
            break
    else:
        pytest.fail(f"updates a second without {attack} and with it: {rates}")
    assert stage.goes_on() is not None
    assert stage.epochs() == epochs
