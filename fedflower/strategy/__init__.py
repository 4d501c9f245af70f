"""Our recipes as a strategy of Flower: asynchronous, journalled, compressed."""

from fedflower.strategy.strategy import Latecomer as Latecomer
