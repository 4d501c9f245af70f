"""``python -m fedclient``."""

from fedclient.cli import main

main()
