"""The entry point of one worker of a silo: ``python -m fedclient.silo HANDLE``."""

import sys

from fedclient.silo.worker import main

main(int(sys.argv[1]))
