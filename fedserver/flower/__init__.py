"""Our recipes as a strategy of Flower: asynchronous, journalled, compressed."""

from fedserver.flower.strategy import Latecomer as Latecomer
