"""What local Adam keeps, and where it cannot."""

import numpy as np
import pytest

from fedcore.clients import LocalAdam, LocalAdamW, TrajectoryAdam
from fedcore.errors import ConfigError
from fedcore.merging import PARAMETER
from fedcore.params import ParamSpec, place_tensors

SHARED = ParamSpec.of({"body": np.zeros(3)})
PARTED = ParamSpec.of(
    {"body": np.zeros(3)}, local=place_tensors([("head", (2,), PARAMETER)])
)


@pytest.mark.parametrize("kind", [LocalAdam, LocalAdamW, TrajectoryAdam])
def test_moments_are_not_kept_beside_local_tensors(
    kind: type[LocalAdam | LocalAdamW | TrajectoryAdam],
) -> None:
    kind(keep_moments=True).check(SHARED)
    kind().check(PARTED)
    with pytest.raises(ConfigError, match=r"keep_moments: the workload keeps 'head'"):
        kind(keep_moments=True).check(PARTED)
