"""Nothing is refused."""

import numpy as np

from fedcore.admission import Everything


def test_every_update_is_used() -> None:
    rule = Everything().build()
    assert rule.admit(rule.init(), 1, None) is None
    assert rule.admit(rule.init(), 1, np.array([1])) is None
    assert rule.observe(None, 1, None) is None
