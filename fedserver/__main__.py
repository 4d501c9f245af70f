"""``python -m fedserver``."""

from fedserver.cli import main

main()
