"""Learning-rate schedules: one file a method; the import is the registration."""

from fedcore.lr_schedules.base import AnyLRSchedule as AnyLRSchedule
from fedcore.lr_schedules.base import LRScheduleConfig as LRScheduleConfig
from fedcore.lr_schedules.constant import Constant as Constant
from fedcore.lr_schedules.cosine import Cosine as Cosine
from fedcore.lr_schedules.linear import Linear as Linear
from fedcore.lr_schedules.points import Points as Points
from fedcore.lr_schedules.step import Step as Step
from fedcore.lr_schedules.warm_up import WarmUp as WarmUp
