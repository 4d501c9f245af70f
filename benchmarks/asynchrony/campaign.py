"""All runs of a setting; a file keeps the finished ones, which are not run again."""

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import basis
from benchmarks.asynchrony.contenders import (
    BUFFERED,
    CONTENDERS,
    UNWEIGHTED,
    Contender,
    Rates,
)
from benchmarks.asynchrony.course import Outcome, Setting, simulate
from benchmarks.asynchrony.tune import Tried, search
from benchmarks.speed.measure import machine
from fedcore.typing import JSON, Seconds

CONTROL_RATE = 2.0  # of the server, in the negative control
CONTROL_TIME = 50.0
PATIENCE = 0.6  # of the time that a run may take, while rates are looked for
_NUMBERS = re.compile(r"\[\s+([-\d.,\s]+?)\s+\]")
Say = Callable[[str], None]


@dataclass
class Store:
    """The results file, or a part of memory where nothing is to be saved."""

    path: Path | None
    kept: JSON = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Reads what is there."""
        self._read()

    def _read(self) -> None:
        if self.path is not None and self.path.is_file():
            self.kept = json.loads(self.path.read_text())["settings"]

    def of(self, name: str, about: JSON) -> JSON:
        """What is known of a setting."""
        found: JSON = self.kept.setdefault(name, about)
        return found

    def write(self, name: str) -> None:
        """Puts one setting into the file; the others stay as they are there."""
        if self.path is None:
            return
        mine = self.kept[name]
        self._read()
        self.kept[name] = mine
        told = {"settings": dict(sorted(self.kept.items()))}
        text = json.dumps(told, indent=1, ensure_ascii=False, allow_nan=False)
        self.path.parent.mkdir(exist_ok=True)
        new = self.path.with_suffix(f".{os.getpid()}")
        new.write_text(_NUMBERS.sub(_one_line, text) + "\n")
        os.replace(new, self.path)


def _one_line(found: re.Match[str]) -> str:
    return "[" + " ".join(found[1].split()) + "]"


@dataclass
class Campaign:
    """A setting with its contenders."""

    setting: Setting
    store: Store
    say: Say
    limit: Seconds  # of virtual time, for a run
    tuning: int  # runs for each contender

    def __post_init__(self) -> None:
        """Finds what was run before."""
        setting, problem = self.setting, self.setting.problem
        self.name = f"{problem.title}, {setting.speed}, {setting.flight} in flight"
        about: JSON = {
            **problem.to_json(),
            "speed": setting.speed,
            "in flight": setting.flight,
            "tuning": {},
            "runs": {},
            "programs": {},
            "control": {},
        }
        self._known = self.store.of(self.name, about)

    @property
    def target(self) -> float:
        """The higher one: on the way to it, a run passes the lower one."""
        return max(self.setting.problem.targets)

    # ------------------------------------------------------------------- tuning

    def tune(self, contender: Contender) -> None:
        """Finds its rates, with seed 0, on training images that are held out.

        What was tried there before is not tried again.
        """

        def measure(rates: Rates, limit: Seconds) -> Outcome:
            return simulate(
                self.setting,
                contender,
                rates,
                seed=0,
                limit=limit,
                target=self.target,
                tuning=True,
            )

        rows = self._known["tuning"].setdefault(contender.name, [])
        limit, known = PATIENCE * self.limit, self.tried(contender.name)
        for each in search(measure, self.target, limit, self.tuning, known):
            rows.append(each.to_json())
            self.store.write(self.name)
            self.say(
                f"{self.name}: {contender.name} {each.rates}: {each.seconds:.1f} to "
                f"{self.target:g}, best {each.best:.4f}, {each.wall:.0f} s"
            )

    def rates(self, contender: Contender) -> Rates:
        """The learning rates with which a contender was soonest at the target."""
        if contender.fixed is not None:
            return contender.fixed
        tried = self.tried(contender.rates_of or contender.name)
        return min(tried, key=lambda each: each.order).rates

    def tried(self, name: str) -> list[Tried]:
        """What was tried for a contender."""
        return list(map(Tried.from_json, self._known["tuning"].get(name, [])))

    # --------------------------------------------------------------------- runs

    def run(self, contender: Contender, seed: int) -> None:
        """Runs it at its best rates, unless that was done with today's program."""
        rates = self.rates(contender)
        self._leave_those_of_another_program(contender)
        runs = self._known["runs"].setdefault(contender.name, {})
        before = runs.get(str(seed), {})
        if Rates(before.get("client"), before.get("server")) == rates:
            return
        outcome = simulate(
            self.setting,
            contender,
            rates,
            seed=seed,
            limit=self.limit,
            target=self.target,
        )
        runs[str(seed)] = {**rates._asdict(), **outcome.to_json()}
        program = {"machine": machine(), **basis.stamp()}
        self._known["programs"][contender.name] = program
        self.say(f"{self.name}: {contender.name}, seed {seed}: {self._told(outcome)}")
        self.store.write(self.name)

    def _leave_those_of_another_program(self, contender: Contender) -> None:
        """Puts a contender's runs of an older program beside those that count."""
        name = contender.name
        program = self._known["programs"].get(name, {})
        saved = program.get(basis.RESTS_ON)
        if saved and not any(basis.compare(saved, name)):
            return
        if runs := self._known["runs"].pop(name, None):
            self._known.setdefault("earlier runs", {})[name] = runs

    def _told(self, outcome: Outcome) -> str:
        times = (outcome.reaches(goal) for goal in self.setting.problem.targets)
        return f"{', '.join(f'{when:.1f}' for when in times)}; {outcome.wall:.0f} s"

    def outcomes(self, contender: Contender, seeds: Sequence[int]) -> list[Outcome]:
        """What was run, by seed; nothing if a seed is missing."""
        runs = self._known["runs"].get(contender.name, {})
        if any(str(seed) not in runs for seed in seeds):
            return []
        return [_outcome(runs[str(seed)]) for seed in seeds]

    def done(self, seeds: Sequence[int]) -> dict[str, list[Outcome]]:
        """The runs of every contender that has them all."""
        found = {c.name: self.outcomes(c, seeds) for c in CONTENDERS.values()}
        return {name: outcomes for name, outcomes in found.items() if outcomes}

    # ------------------------------------------------------------------ control

    def control(self) -> None:
        """FedBuff at a server rate of 2, with and without staleness weights."""
        client = self.rates(CONTENDERS[BUFFERED]).client
        for contender in (CONTENDERS[BUFFERED], UNWEIGHTED):
            if contender.name in self._known["control"]:
                continue
            rates = Rates(client, CONTROL_RATE)
            outcome = simulate(
                self.setting,
                contender,
                rates,
                seed=0,
                limit=min(CONTROL_TIME, self.limit),
                target=math.inf,
            )
            told = {**rates._asdict(), **outcome.to_json()}
            self._known["control"][contender.name] = told
            self.say(f"{self.name}: {contender.name}, {rates}: {outcome.held[-1]:.3f}")
            self.store.write(self.name)

    def controls(self) -> Iterator[tuple[str, Rates, Outcome]]:
        """What the control has shown."""
        for name, told in self._known["control"].items():
            yield name, Rates(told["client"], told["server"]), _outcome(told)


def _outcome(told: JSON) -> Outcome:
    fields = {k: v for k, v in told.items() if k not in Rates._fields}
    return Outcome.from_json(fields)
