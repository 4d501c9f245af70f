"""``python -m fedsim``, and the command ``fedsim``."""

from fedrun.cli.entry import start


def main() -> None:
    """Runs the command."""
    start("fedsim.cli")


if __name__ == "__main__":
    main()
