"""Recipes: one file a published system; the import is the registration."""

from fedcore.recipes.base import AnyRecipe as AnyRecipe
from fedcore.recipes.ca2fl import CA2FL as CA2FL
from fedcore.recipes.double_compression import DoubleCompression as DoubleCompression
from fedcore.recipes.double_squeeze import DoubleSqueeze as DoubleSqueeze
from fedcore.recipes.ds_sync import DSSync as DSSync
from fedcore.recipes.dyn_sgd import DynSGD as DynSGD
from fedcore.recipes.ef21 import EF21 as EF21
from fedcore.recipes.fed_adagrad import FedAdagrad as FedAdagrad
from fedcore.recipes.fed_adam import FedAdam as FedAdam
from fedcore.recipes.fed_async import FedAsync as FedAsync
from fedcore.recipes.fed_avg import FedAvg as FedAvg
from fedcore.recipes.fed_avg_m import FedAvgM as FedAvgM
from fedcore.recipes.fed_buff import FedBuff as FedBuff
from fedcore.recipes.fed_dyn import FedDyn as FedDyn
from fedcore.recipes.fed_nova import FedNova as FedNova
from fedcore.recipes.fed_paq import FedPAQ as FedPAQ
from fedcore.recipes.fed_prox import FedProx as FedProx
from fedcore.recipes.fed_yogi import FedYogi as FedYogi
from fedcore.recipes.fleet import Fleet as Fleet
from fedcore.recipes.flexible_participation import (
    FlexibleParticipation as FlexibleParticipation,
)
from fedcore.recipes.gaia import Gaia as Gaia
from fedcore.recipes.latecomer import Latecomer as Latecomer
from fedcore.recipes.mifa import MIFA as MIFA
from fedcore.recipes.oort import Oort as Oort
from fedcore.recipes.overlap_local_sgd import OverlapLocalSgd as OverlapLocalSgd
from fedcore.recipes.scaffold import Scaffold as Scaffold
from fedcore.recipes.stc import STC as STC
