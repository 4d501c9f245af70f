"""Distributions of populations: one file a method; the import is the registration."""

from fedcore.distributions.base import AnyDistribution as AnyDistribution
from fedcore.distributions.base import DistributionConfig as DistributionConfig
from fedcore.distributions.base import Fitted as Fitted
from fedcore.distributions.base import Floats as Floats
from fedcore.distributions.empirical import Empirical as Empirical
from fedcore.distributions.exponential import (
    ExponentialDistribution as ExponentialDistribution,
)
from fedcore.distributions.log_normal import LogNormal as LogNormal
from fedcore.distributions.pareto import Pareto as Pareto
from fedcore.distributions.same import Same as Same
from fedcore.distributions.uniform import UniformDistribution as UniformDistribution
from fedcore.distributions.weibull import Weibull as Weibull
