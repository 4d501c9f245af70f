"""The checksum of a safetensors file's tensors and metadata, kept in the latter."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

CHECK = "latecomer.sha256"


def checksum_of(
    arrays: Mapping[str, npt.NDArray[Any]], metadata: Mapping[str, str]
) -> str:
    """Returns the checksum of a file's content, without the one that stands in it."""
    rest = {key: value for key, value in metadata.items() if key != CHECK}
    content = hashlib.sha256(json.dumps(rest, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        content.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        content.update(array.tobytes())
    return content.hexdigest()


def is_sound(
    arrays: Mapping[str, npt.NDArray[Any]], metadata: Mapping[str, str]
) -> bool:
    """Returns whether a file is as it was written, with its checksum."""
    return metadata.get(CHECK) == checksum_of(arrays, metadata)
