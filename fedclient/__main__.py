"""The entry point of ``python -m fedclient`` and of the command ``fedclient``."""

from fedrun.cli.entry import start


def main() -> None:
    """Runs the command."""
    start("fedclient.cli")


if __name__ == "__main__":
    main()
