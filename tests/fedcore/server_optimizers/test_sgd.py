"""Plain SGD on the server."""

import numpy as np

from fedcore.server_optimizers import SGD


def test_a_step_subtracts_the_aggregate_times_the_rate() -> None:
    exact_D, agg_D = np.array([1, 2], np.float32), np.array([0.5, -1], np.float32)
    assert SGD().build().update(exact_D, agg_D.copy(), None)[0].tolist() == [0.5, 3]
    assert SGD(lr=2).build().update(exact_D, agg_D.copy(), None)[0].tolist() == [0, 4]


def test_nothing_arrived_means_the_same_bits() -> None:
    exact_D = np.array([1.1, -0.3, 1e-40], np.float32)
    moved_D, state = SGD(lr=0.7).build().update(exact_D, np.zeros(3, np.float32), None)
    assert moved_D.tobytes() == exact_D.tobytes()
    assert state is None
