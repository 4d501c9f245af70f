"""Which modules are mutated, and which tests may catch it.

Of these tests, those that run the mutated line are run for a mutant, the shortest
first. The model check takes part with its disasters and its first random schedules.
"""

from dataclasses import dataclass
from importlib.util import find_spec

from tests.mutants.table import ROOT

_CHECK = "tests/protocol/test_model_check.py::"
MODEL_CHECK = (
    f"{_CHECK}test_no_composed_disaster_breaks_an_invariant",
    f"{_CHECK}test_no_random_schedule_breaks_an_invariant[0]",
)
_COORDINATOR = ("tests/fedcore/coordinator", *MODEL_CHECK)
_PARTICIPANT = (
    "tests/fedcore/test_participant.py",
    "tests/fedcore/test_participant_proofs.py",
    "tests/fedcore/test_participant_rules.py",
    "tests/fedcore/test_participant_tasks.py",
    "tests/fedcore/clients/test_other_method.py",
    *MODEL_CHECK,
)
_JOURNAL = (
    "tests/fedrun/journal",
    "tests/fedrun/test_run.py",
    "tests/fedrun/test_checkpoints.py",
    "tests/fedrun/journal/test_what_if.py",
    "tests/fedserver/test_journal_cli.py",
    *MODEL_CHECK,
)
_OTHERS = {
    "fedcore/pool.py": (
        "tests/fedcore/test_pool.py",
        "tests/fedcore/test_samples.py",
        "tests/fedcore/test_samples_given.py",
        "tests/fedsim/test_failures.py",
    ),
    "fedcore/user_code.py": (
        "tests/fedcore/test_user_code.py",
        "tests/fedsim/test_failures.py",
    ),
    "fedsim/interrupts.py": ("tests/fedsim/test_interrupts.py",),
    "fedserver/children.py": (
        "tests/fedserver/test_children.py",
        "tests/fedserver/test_last_waits.py",
    ),
    "fedserver/core.py": (
        "tests/fedserver/test_core.py",
        "tests/fedserver/test_disk.py",
        "tests/fedserver/test_ends.py::test_who_waits_for_work_is_told_to_come_again",
    ),
    "fedserver/calls/acts.py": ("tests/fedserver/test_acts.py",),
    "fedserver/calls/enrolment.py": (
        "tests/fedserver/test_identity.py",
        "tests/fedserver/test_tls.py",
        "tests/fedserver/test_trials.py",
    ),
    "fedserver/view/web/metrics.py": (
        "tests/fedserver/web",
        "tests/fedserver/test_live.py",
        "tests/fedserver/test_views.py",
    ),
}
_FLOWER = (
    "tests/fedflower/app",
    "tests/fedflower/test_mod.py",
    "tests/fedflower/strategy/test_strategy.py",
    "tests/fedflower/strategy/test_bad_nodes.py",
)
_OF_FLOWER = "fedflower/app/messages.py", "fedflower/mod.py"


@dataclass(frozen=True)
class Target:
    """One module, and the tests of its package."""

    path: str
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        """As it is imported."""
        return self.path.removesuffix(".py").replace("/", ".")

    @property
    def source(self) -> str:
        """Its text."""
        return (ROOT / self.path).read_text(encoding="utf-8")


def targets() -> list[Target]:
    """All of them; a new module of these packages is one without being listed."""
    return [
        *_package("fedcore/coordinator", _COORDINATOR),
        *_package("fedcore/participant", _PARTICIPANT),
        *_package("fedrun/journal", _JOURNAL),
        Target("fedrun/commit.py", ("tests/fedrun/test_commit.py", *_JOURNAL)),
        Target("fedrun/sqlite.py", ("tests/fedclient/test_store.py", *_JOURNAL)),
        *(
            Target(path, ("tests/fedclient/test_store.py", *MODEL_CHECK))
            for path in ("fedclient/state/saved_state.py", "fedclient/state/store.py")
        ),
        *(Target(path, tests) for path, tests in _OTHERS.items()),
        *(Target(path, _FLOWER) for path in _OF_FLOWER if find_spec("flwr")),
    ]


def _package(folder: str, tests: tuple[str, ...]) -> list[Target]:
    return [
        Target(path.relative_to(ROOT).as_posix(), tests)
        for path in sorted((ROOT / folder).glob("*.py"))
        if path.name != "__init__.py"
    ]
