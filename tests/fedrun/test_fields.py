"""Types of fields are checked alike, however NumPy spells its own."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from typing_extensions import TypeAliasType, TypeVar

from fedrun.fields import check_of

Scalar = TypeVar("Scalar", bound=np.generic)
# As NDArray is from NumPy 2.5 on.
ALIAS: Any = TypeAliasType(
    "ALIAS",
    np.ndarray[Any, np.dtype[Scalar]],
    type_params=(Scalar,),  # type: ignore[arg-type]
)


@pytest.mark.parametrize("hint", [npt.NDArray[np.float32], ALIAS[np.float32]])
def test_an_array_is_known_by_its_alias(hint: Any) -> None:
    check = check_of(hint)
    assert check(np.zeros(3, np.float32))
    assert not check([0.0, 0.0, 0.0])
    assert check_of(hint | None)(None)
