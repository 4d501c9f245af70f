"""Nothing is refused."""

import numpy as np

from fedcore.update_filters import AcceptAll


def test_every_update_is_used() -> None:
    rule = AcceptAll().build()
    assert rule.refusal(rule.init(), 1, None) is None
    assert rule.refusal(rule.init(), 1, np.array([1])) is None
    assert rule.observe(None, 1, None) is None
