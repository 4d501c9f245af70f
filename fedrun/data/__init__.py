"""Data sets and loaders."""

from fedrun.data.digits import digits as digits
from fedrun.data.files import client_file as client_file
from fedrun.data.files import load as load
from fedrun.data.files import load_column as load_column
