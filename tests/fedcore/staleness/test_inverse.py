"""DynSGD: Jiang et al., SIGMOD 2017."""

from fedcore.staleness import Inverse


def test_the_weight_is_one_over_tau_plus_one() -> None:
    weigh = Inverse().build().weigh
    assert [weigh(None, staleness, None) for staleness in (0, 1, 3, 99)] == [
        1.0,
        0.5,
        0.25,
        0.01,
    ]
