"""DynSGD: Jiang et al., SIGMOD 2017."""

from fedcore.recipes import DynSGD


def test_an_update_that_is_three_versions_late_counts_a_quarter() -> None:
    config = DynSGD()
    assert not config.synchronous
    assert config.buffer == 1
    assert config.staleness.build().weigh(None, 3, None) == 0.25
