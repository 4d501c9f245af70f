"""Compressors: one file a method; the import is the registration."""

from fedcore.compressors._memory import MemoryConfig as MemoryConfig
from fedcore.compressors.base import AnyCompressor as AnyCompressor
from fedcore.compressors.base import Compressor as Compressor
from fedcore.compressors.base import CompressorConfig as CompressorConfig
from fedcore.compressors.base import Context as Context
from fedcore.compressors.base import Keys as Keys
from fedcore.compressors.cast import Cast as Cast
from fedcore.compressors.cyclic import Cyclic as Cyclic
from fedcore.compressors.dead_zone import DeadZone as DeadZone
from fedcore.compressors.ef21 import EF21 as EF21
from fedcore.compressors.error_feedback import ErrorFeedback as ErrorFeedback
from fedcore.compressors.gaia import Gaia as Gaia
from fedcore.compressors.gaussian_k import GaussianK as GaussianK
from fedcore.compressors.identity import Identity as Identity
from fedcore.compressors.low_rank import LowRank as LowRank
from fedcore.compressors.natural import Natural as Natural
from fedcore.compressors.per_tensor import PerTensor as PerTensor
from fedcore.compressors.qsgd import QSGD as QSGD
from fedcore.compressors.random_k import RandomK as RandomK
from fedcore.compressors.rotation import Rotation as Rotation
from fedcore.compressors.semi_discrete import SemiDiscrete as SemiDiscrete
from fedcore.compressors.sign_l1 import SignL1 as SignL1
from fedcore.compressors.sign_l2 import SignL2 as SignL2
from fedcore.compressors.stc import STC as STC
from fedcore.compressors.top_k import TopK as TopK
from fedcore.compressors.uniform import Uniform as Uniform
