"""The entry point of ``python -m fedsim`` and of the command ``fedsim``."""

from fedrun.cli.entry import start


def main() -> None:
    """Runs the command."""
    start("fedsim.cli")


if __name__ == "__main__":
    main()
