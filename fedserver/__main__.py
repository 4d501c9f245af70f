"""The entry point of ``python -m fedserver`` and of the command ``fedserver``."""

from fedrun.cli.entry import start


def main() -> None:
    """Runs the command."""
    start("fedserver.cli")


if __name__ == "__main__":
    main()
