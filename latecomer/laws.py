"""Runs the laws of this project on your methods: ``python -m latecomer.laws FILE``.

The laws are the tests in ``tests/laws``, which the package includes. The command runs
the laws of the roles that the file's methods have, on these methods alone: each
method's ``example()``, with all choices of its settings.
"""

import os
import sys
from importlib import import_module
from pathlib import Path

import click

from fedcore.errors import ConfigError
from fedrun.cli.command import PATH, example, in_sentences
from fedrun.methods import load_methods, methods_of
from fedrun.optional import require

_HERE = Path(__file__).resolve().parent
# Folders that may hold tests/laws: of an installed package, and of its sources.
_ROOTS = (_HERE / "_laws", _HERE.parent)

# The file of the laws, by role.
_LAWS = {
    "aggregator": "test_aggregators.py",
    "client algorithm": "test_clients.py",
    "compressor": "test_compressors.py",
    "controller": "test_controllers.py",
    "distribution": "test_distributions.py",
    "recipe": "test_recipes.py",
    "selection": "test_selection.py",
    "server optimizer": "test_server_optimizers.py",
    "staleness policy": "test_staleness.py",
    "update_filter": "test_update_filters.py",
}


@click.command(epilog=example("python -m latecomer.laws my_methods.py"))
@click.argument("file", type=PATH)
@in_sentences
def main(file: Path) -> None:
    """Run the laws of all methods on those that FILE defines."""
    sys.exit(check(file))


def check(file: Path) -> int:
    """Runs the laws on the methods of a file; returns the exit code of pytest.

    Raises:
        ConfigError: the file has no methods, or pytest or Hypothesis is missing.
    """
    pytest = require("pytest", "laws", "python -m latecomer.laws")
    require("hypothesis", "laws", "python -m latecomer.laws")
    import_module("fedcore.recipes")  # registers all roles
    own = methods_of(load_methods(file))
    root = next((root for root in _ROOTS if (root / "tests" / "laws").is_dir()), None)
    if root is None:
        raise ConfigError(f"{_HERE}: this installation has no tests/laws beside it")
    sys.path.insert(0, str(root))
    import_module("tests.laws.registered").examine(own)
    laws = {_LAWS[method.role] for method in own} | {"test_methods.py"}
    words = [str(root / "tests" / "laws" / name) for name in sorted(laws)]
    settings = ["-c", os.devnull, "--rootdir", str(root), "-p", "no:cacheprovider"]
    settings += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return int(pytest.main([*words, *settings, "--import-mode=importlib", "-q"]))


if __name__ == "__main__":
    main()
