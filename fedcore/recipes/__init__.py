"""Recipes: one file a published system; the import is the registration."""

from fedcore.recipes.base import AnyRecipe as AnyRecipe
from fedcore.recipes.ca2fl import CA2FL as CA2FL
from fedcore.recipes.double_compression import DoubleCompression as DoubleCompression
from fedcore.recipes.ef21 import EF21 as EF21
from fedcore.recipes.fed_async import FedAsync as FedAsync
from fedcore.recipes.fed_avg import FedAvg as FedAvg
from fedcore.recipes.fed_buff import FedBuff as FedBuff
from fedcore.recipes.fleet import Fleet as Fleet
from fedcore.recipes.latecomer import Latecomer as Latecomer
from fedcore.recipes.scaffold import Scaffold as Scaffold
