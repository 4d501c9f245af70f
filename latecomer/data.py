"""Data sets, and functions that read data from files and libraries."""

from fedflower.datasets import flower_partition as flower_partition
from fedrun.data import Exercises as Exercises
from fedrun.data import HuggingFaceData as HuggingFaceData
from fedrun.data import Subset as Subset
from fedrun.data import client_file as client_file
from fedrun.data import digits as digits
from fedrun.data import fashion_mnist as fashion_mnist
from fedrun.data import hugging_face as hugging_face
from fedrun.data import load as load
from fedrun.data import load_column as load_column
from fedrun.data import shoulder_smartwatch as shoulder_smartwatch
