"""``python -m latecomer``: says what there is."""

from importlib import import_module

import click

import latecomer

_PROGRAMS = ("fedserver", "fedclient", "fedsim")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(latecomer.__version__, prog_name="latecomer")
def main() -> None:
    """Say which commands there are, and where the documentation is."""
    click.echo(f"latecomer {latecomer.__version__}")
    click.echo((latecomer.__doc__ or "").partition("\n")[0] + "\n")
    for program in _PROGRAMS:
        command = import_module(f"{program}.cli").main
        click.echo(f"  {program:9}  {command.get_short_help_str(80)}")
    click.echo("\nEach explains itself with --help; in Python: help(latecomer).")
    click.echo("To check methods of your own: python -m latecomer.laws FILE")
    click.echo("Documentation: docs/index.md")


if __name__ == "__main__":
    main(prog_name="python -m latecomer")
