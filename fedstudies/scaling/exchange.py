"""The bytes of one exchange, from a real update in the config's own codecs."""

import math

from fedcore.payloads import pack
from fedcore.planning.paleo import Exchange
from fedcore.rng import Key
from fedcore.workload import Workload
from fedrun.config import FederationConfig
from fedstudies.codecs.timing import first_updates


def exchange_of(workload: Workload, config: FederationConfig) -> Exchange:
    """Encodes the update of a first task, as client and server would.

    Raises:
        UserCodeError: the user's code raised.
        ConfigError: a first task diverges.
    """
    sample = first_updates(workload, config)
    delta_D, sizes = sample.deltas[0], []
    for codec in (config.algorithm.uplink, config.algorithm.downlink):
        compressor = codec.build_for(sample.spec)
        state = compressor.init(sample.spec.dim)
        payload, _ = compressor.encode(delta_D, state, Key.root(config.seed))
        sizes.append(len(pack(payload)))
    up, down = sizes
    return Exchange(values=4 * math.prod(delta_D.shape), up=up, down=down)
