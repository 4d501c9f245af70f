"""The command ``fedsim``."""

from importlib import import_module

import click

from fedrun.cli.help import Group
from fedsim.cli import simulator


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    example="fedsim run federation.yaml",
    page="simulation.md",
)
@click.version_option(package_name="latecomer")
def main() -> None:
    """Simulate a federation on this machine, and study it."""


for _command in (simulator.new, simulator.data, simulator.run, simulator.trace):
    main.add_command(_command)
# The studies stand above the simulator, so they are found by name.
for _command in import_module("fedstudies.commands").commands():
    main.add_command(_command)
