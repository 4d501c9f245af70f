"""Staleness policies: one file a method; the import is the registration."""

from fedcore.staleness.ada_sgd import AdaSGD as AdaSGD
from fedcore.staleness.base import AnyStaleness as AnyStaleness
from fedcore.staleness.base import StalenessConfig as StalenessConfig
from fedcore.staleness.base import StalenessPolicy as StalenessPolicy
from fedcore.staleness.constant import Constant as Constant
from fedcore.staleness.delay_adaptive import DelayAdaptive as DelayAdaptive
from fedcore.staleness.exponential import Exponential as Exponential
from fedcore.staleness.hinge import Hinge as Hinge
from fedcore.staleness.inverse import Inverse as Inverse
from fedcore.staleness.label_boost import LabelBoost as LabelBoost
from fedcore.staleness.polynomial import Polynomial as Polynomial
