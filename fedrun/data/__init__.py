"""Data sets, and loaders of data."""

from fedcore.samples import Subset as Subset
from fedrun.data.digits import digits as digits
from fedrun.data.fashion_mnist import fashion_mnist as fashion_mnist
from fedrun.data.files import client_file as client_file
from fedrun.data.files import load as load
from fedrun.data.files import load_column as load_column
from fedrun.data.hugging_face import HuggingFaceData as HuggingFaceData
from fedrun.data.hugging_face import hugging_face as hugging_face
from fedrun.data.shoulder_smartwatch import Exercises as Exercises
from fedrun.data.shoulder_smartwatch import shoulder_smartwatch as shoulder_smartwatch
