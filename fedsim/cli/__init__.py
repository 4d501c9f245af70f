"""The command ``fedsim``."""

from importlib import import_module

import click

from fedsim.cli import simulator

# The studies stand above the simulator; here are their names, in the order of use.
STUDIES = {
    "plan": "plan",
}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="latecomer")
def main() -> None:
    """Simulate a federation on this machine, and study it."""


for _command in (simulator.run, simulator.new, simulator.trace, simulator.data):
    main.add_command(_command)
for _command in import_module("fedstudies.commands").commands():
    main.add_command(_command)
for _name, _module in STUDIES.items():
    main.add_command(getattr(import_module(f"fedstudies.cli.{_module}"), _name))
