"""The layers that can be computed for many models at once, without vmap."""

from fedtorch.stacked.layers.base import Composed as Composed
from fedtorch.stacked.layers.base import Layer as Layer
from fedtorch.stacked.layers.make import Maker as Maker
from fedtorch.stacked.layers.make import refusal as refusal
