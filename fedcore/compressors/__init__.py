"""Compressors: one file a method; the import is the registration."""

from fedcore.compressors.base import AnyCompressor as AnyCompressor
from fedcore.compressors.base import Compressor as Compressor
from fedcore.compressors.base import CompressorConfig as CompressorConfig
from fedcore.compressors.error_feedback import ErrorFeedback as ErrorFeedback
from fedcore.compressors.identity import Identity as Identity
from fedcore.compressors.random_k import RandomK as RandomK
from fedcore.compressors.sign_l1 import SignL1 as SignL1
from fedcore.compressors.top_k import TopK as TopK
from fedcore.compressors.uniform import Uniform as Uniform
