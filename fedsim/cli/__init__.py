"""The command ``fedsim``."""

from importlib import import_module

import click

from fedsim.cli import simulator


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="latecomer")
def main() -> None:
    """Simulate a federation on this machine, and study it."""


for _command in (simulator.run, simulator.new, simulator.trace, simulator.data):
    main.add_command(_command)
# The studies stand above the simulator, so they are found by name.
for _command in import_module("fedstudies.commands").commands():
    main.add_command(_command)
