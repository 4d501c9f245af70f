"""The peers' environments: each library with pinned versions, in a folder of its own.

pip is called in the usual way; its own configuration says where to find packages. All
contenders have the CPU build of torch, which PyPI does not have
(``PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu``): CUDA libraries would
count in their start time and memory.
"""

import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TORCH = "torch==2.13.0+cpu"
Python = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Environment:
    """What pip installs, and under which versions of Python."""

    requirements: Sequence[str]
    least: Python = (3, 11)
    below: Python = (3, 13)
    forced: bool = False  # whether what the first one says of its Python is passed over


def _dependencies() -> list[str]:
    """Our own."""
    project = Path(__file__).parent.parent.parent / "pyproject.toml"
    found: list[str] = tomllib.loads(project.read_text())["project"]["dependencies"]
    return found


ENVIRONMENTS = {
    # 1.42.0 asks for a certifi that PyPI does not have.
    "flower": Environment(("flwr[simulation]==1.41.0", TORCH)),
    "pfl": Environment(("pfl[pytorch]==0.6.0", TORCH)),
    # 3.0.0 needs Python 3.14. This one asks for 3.12 and runs with 3.11, so that it can
    # be measured with the Python and the build of torch that all others have.
    "blazefl": Environment(
        ("blazefl==2.0.3", TORCH, "numpy==2.4.6", "tqdm==4.67.1"), forced=True
    ),
    # It was last released in 2023; newer versions of JAX lack what it calls.
    "fedjax": Environment(
        (
            "fedjax==0.0.17",
            "jax==0.4.30",
            "jaxlib==0.4.30",
            "optax==0.2.3",
            "dm-haiku==0.0.12",
            "chex==0.1.89",
            "numpy==2.2.6",
        )
    ),
    # For ourselves on Ray: what we depend on, and Ray.
    "ray": Environment(("ray==2.52.1", TORCH, *_dependencies())),
}


def python_of(folder: Path, name: str) -> Path:
    """The interpreter of an environment, whether it is there or not."""
    return folder / name / "bin" / "python"


def absent(folder: Path, name: str) -> str:
    """Why an environment cannot be used; nothing if it can."""
    if _stamp(folder, name).is_file():
        if _stamp(folder, name).read_text().split("\n") == _pins(name):
            return ""
        return "installed with other versions: run `install` again"
    if _failure(folder, name).is_file():
        return f"does not install: {_failure(folder, name).read_text().strip()}"
    return "not installed: run `install`"


def install(folder: Path, name: str, pythons: Sequence[str]) -> str:
    """Makes an environment, unless it is there; says why it could not."""
    if not absent(folder, name):
        return ""
    folder.mkdir(parents=True, exist_ok=True)
    for path in (_stamp(folder, name), _failure(folder, name)):
        path.unlink(missing_ok=True)
    problem = _make(folder, name, [sys.executable, *pythons])
    if problem:
        _failure(folder, name).write_text(problem)
    else:
        _stamp(folder, name).write_text("\n".join(_pins(name)))
    return problem


def _make(folder: Path, name: str, pythons: Sequence[str]) -> str:
    environment = ENVIRONMENTS[name]
    python = _suitable(environment, pythons)
    if python is None:
        least, below = (
            ".".join(map(str, v)) for v in (environment.least, environment.below)
        )
        return f"needs Python {least} or later, below {below}; name one with --python"
    pip = [str(python_of(folder, name)), "-m", "pip", "install", "-q"]
    made = [python, "-m", "venv", "--clear", str(folder / name)]
    first, *others = environment.requirements
    installed = [[*pip, first, *others]]
    if environment.forced:
        alone = [*pip, "--no-deps", "--ignore-requires-python", first]
        installed = [[*pip, *others], alone]
    for command in (made, *installed):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return _last_error(done.stderr)
    return ""


def _suitable(environment: Environment, pythons: Sequence[str]) -> str | None:
    for python in pythons:
        asked = subprocess.run(
            [python, "-c", "import sys; print(*sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
        )
        words = asked.stdout.split()
        if asked.returncode or len(words) != 2:
            continue
        if environment.least <= (int(words[0]), int(words[1])) < environment.below:
            return python
    return None


def _last_error(text: str) -> str:
    lines = [line for line in text.splitlines() if line.startswith("ERROR")]
    return (lines or text.splitlines() or ["pip failed"])[-1][:300]


def _pins(name: str) -> list[str]:
    return sorted(ENVIRONMENTS[name].requirements)


def _stamp(folder: Path, name: str) -> Path:
    return folder / f"{name}.installed"


def _failure(folder: Path, name: str) -> Path:
    return folder / f"{name}.failed"


def default_folder() -> Path:
    """Where environments are kept if nothing else is said."""
    cache = os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")
    return Path(cache) / "latecomer" / "peers"
