"""Aggregators: one file a method; the import is the registration."""

from fedcore.aggregators.base import Aggregator as Aggregator
from fedcore.aggregators.base import AggregatorConfig as AggregatorConfig
from fedcore.aggregators.base import AnyAggregator as AnyAggregator
from fedcore.aggregators.base import Contribution as Contribution
from fedcore.aggregators.base import Groups as Groups
from fedcore.aggregators.base import Work as Work
from fedcore.aggregators.base import fair_places as fair_places
from fedcore.aggregators.ca2fl import CA2FL as CA2FL
from fedcore.aggregators.coordinate_median import CoordinateMedian as CoordinateMedian
from fedcore.aggregators.ds_sync import DSSync as DSSync
from fedcore.aggregators.fed_nova import FedNova as FedNova
from fedcore.aggregators.flexible_participation import (
    FlexibleParticipation as FlexibleParticipation,
)
from fedcore.aggregators.mifa import MIFA as MIFA
from fedcore.aggregators.mixing import Mixing as Mixing
from fedcore.aggregators.trimmed_mean import TrimmedMean as TrimmedMean
from fedcore.aggregators.weighted_mean import WeightedMean as WeightedMean
