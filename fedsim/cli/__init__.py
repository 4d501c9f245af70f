"""The command ``fedsim``."""

import click

from fedsim.cli import coding, experiments, scaling, simulator
from fedsim.cli.influence import influence
from fedsim.cli.plan import plan
from fedsim.cli.predict import predict


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="latecomer")
def main() -> None:
    """Simulate a federation on this machine, and study it."""


for _command in (
    simulator.run,
    simulator.new,
    simulator.trace,
    simulator.data,
    experiments.codecs,
    experiments.sweep,
    experiments.compare,
    experiments.staleness,
    coding.coding,
    influence,
    plan,
    predict,
    scaling.scale,
):
    main.add_command(_command)
