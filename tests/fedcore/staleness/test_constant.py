"""No dampening."""

from fedcore.staleness import Constant


def test_every_update_counts_in_full() -> None:
    weigh = Constant().build().weigh
    assert {weigh(None, staleness, None) for staleness in range(100)} == {1.0}
