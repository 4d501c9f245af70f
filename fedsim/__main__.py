"""``python -m fedsim``."""

from fedsim.cli import main

main()
