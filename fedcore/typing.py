"""Names for the arrays and units that appear in signatures.

Arrays end in their dimensions:

=====  ==========================================
``N``  clients in a stack
``D``  values of the flat model
``K``  entries that a sparse message keeps
``S``  local steps
``B``  samples of a batch
``F``  features of a sample
``C``  classes
``W``  places of a sliding window
=====  ==========================================

A function on ``delta_D`` works along the last axis, and so takes a stack
``(N, D)`` as well.
"""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = Any  # a NumPy array or a torch tensor: the array API's subset
Vector: TypeAlias = npt.NDArray[np.float32]  # one flat model, message or memory
Row: TypeAlias = tuple[Array, int]  # one of an array (N, D)
Indices: TypeAlias = npt.NDArray[np.int64]
Counts: TypeAlias = npt.NDArray[np.int64]  # labels per class
State: TypeAlias = Any  # a role's own state: NamedTuples of arrays and numbers
Seconds: TypeAlias = float
Bytes: TypeAlias = bytes | bytearray | memoryview
JSON: TypeAlias = Any  # what json.dumps takes
