"""Server optimisers: one file a method; the import is the registration."""

from fedcore.server_optimizers.adagrad import Adagrad as Adagrad
from fedcore.server_optimizers.adam import Adam as Adam
from fedcore.server_optimizers.base import AnyServerOptimizer as AnyServerOptimizer
from fedcore.server_optimizers.base import ServerOptimizer as ServerOptimizer
from fedcore.server_optimizers.base import (
    ServerOptimizerConfig as ServerOptimizerConfig,
)
from fedcore.server_optimizers.ef21 import EF21 as EF21
from fedcore.server_optimizers.fed_dyn import FedDyn as FedDyn
from fedcore.server_optimizers.momentum import Momentum as Momentum
from fedcore.server_optimizers.schedule_free import ScheduleFree as ScheduleFree
from fedcore.server_optimizers.sgd import SGD as SGD
from fedcore.server_optimizers.yogi import Yogi as Yogi
