"""The result of an attack: figures without it and with it, in pairs."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.basis import stamp
from benchmarks.hostile.stage import End, Stage, Window
from benchmarks.speed.measure import machine
from fedcore.typing import JSON, Seconds

RESULTS = Path(__file__).parent.parent / "results" / "hostile.json"


@dataclass(frozen=True)
class Found:
    """One attack on one state of the sources."""

    pairs: Sequence[tuple[Window, Window]]  # without the attack, and with it
    recovered: Sequence[Seconds | None]  # after each attack; None: not at all
    harmed: Sequence[str]
    epochs: int
    end: End

    @property
    def ratios(self) -> list[float]:
        """Honest updates a second with the attack, to those without."""
        return [
            with_.rate / calm.rate if calm.rate else 0.0 for calm, with_ in self.pairs
        ]

    @property
    def growth(self) -> float:
        """The most memory with the attack, to the most before the first one."""
        before = self.pairs[0][0].megabytes
        return max(with_.megabytes for _, with_ in self.pairs) / before

    @property
    def goes_on(self) -> bool:
        """Whether the honest clients worked on after every attack."""
        return None not in self.recovered

    def to_json(self) -> JSON:
        """All of it."""
        calm, attacked = zip(*self.pairs, strict=True)
        return {
            "ratio": _rounded(median(self.ratios)),
            "ratios": list(map(_rounded, self.ratios)),
            "updates a second": _each(calm, attacked, lambda w: w.rate),
            "megabytes": _each(calm, attacked, lambda w: w.megabytes),
            "growth": _rounded(self.growth),
            "slowest answer, seconds": _each(calm, attacked, lambda w: w.slowest),
            "unanswered": _each(calm, attacked, lambda w: w.unanswered),
            "CPU a second": _each(calm, attacked, lambda w: w.cpu / w.seconds),
            "goes on": self.goes_on,
            "recovered after, seconds": [
                None if each is None else _rounded(each) for each in self.recovered
            ],
            "harmed": list(self.harmed)[:8],
            "histories opened": self.epochs,
            "exit status": self.end.status,
            "journal": self.end.verified[-200:],
            "journal is sound": self.end.is_sound,
            "answers": attacked[0].answers["answers"],
        }


def _each(
    calm: Sequence[Window], attacked: Sequence[Window], of: Callable[[Window], float]
) -> JSON:
    return {
        "without": [_rounded(of(window)) for window in calm],
        "with": [_rounded(of(window)) for window in attacked],
    }


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def attack(stage: Stage, pairs: int, seconds: Seconds | None = None) -> Found:
    """Attacks again and again, as long as the honest clients recover."""
    seconds = seconds or stage.scenario.seconds
    windows, recovered = [], []
    for _ in range(pairs):
        calm = stage.window(seconds)
        windows.append((calm, stage.window(seconds, stage.scenario.attack)))
        recovered.append(stage.goes_on())
        if recovered[-1] is None:
            break
    harmed, epochs = stage.harmed(), stage.epochs()
    return Found(windows, recovered, harmed, epochs, stage.stop())


def save(section: str, name: str, which: str, found: JSON, **about: JSON) -> None:
    """Writes the figures of one thing; all others keep theirs."""
    told: JSON = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    told["machine"] = machine()
    one = told.setdefault(section, {}).setdefault(name, {})
    one |= {**about, which: found, **stamp()}
    RESULTS.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")


def save_speed(found: JSON) -> None:
    """Writes what both states of the sources reach without any attack."""
    told: JSON = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    told |= {"speed": found, **stamp()}
    RESULTS.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")


def line(name: str) -> str:
    """Returns the row of an attack in the table of the documentation."""
    told = json.loads(RESULTS.read_text())["attacks"][name]
    found = told["after"]
    rates = found["updates a second"]
    cells = [
        told["title"],
        f"{median(rates['without']):.0f}",
        f"{median(rates['with']):.1f}",
        f"{found['ratio']:.2f}" + ("" if found["goes on"] else ", for good"),
        f"{found['growth']:.2f}",
    ]
    return f"| {' | '.join(cells)} |"
