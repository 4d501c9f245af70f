"""Local SGD with double compression: Gao et al., AAAI 2021."""

from fedcore.clients import LocalSGD
from fedcore.compressors import DeadZone, ErrorFeedback
from fedcore.recipes import DoubleCompression
from fedcore.selection import All
from fedcore.staleness import Constant


def test_all_workers_take_five_steps_in_step() -> None:
    config = DoubleCompression()
    assert config.synchronous
    assert config.staleness_limit == 0
    assert config.selection == All()
    assert config.client == LocalSGD(steps=5)
    assert config.staleness == Constant()


def test_both_directions_are_compressed_with_a_memory() -> None:
    config = DoubleCompression()
    assert config.uplink == ErrorFeedback(inner=DeadZone(ratio=0.05))
    assert config.downlink == DeadZone(ratio=0.1)  # the server's memory is W - X


def test_the_momentum_variant_keeps_its_buffer_at_the_client() -> None:
    settings = {"client": {"kind": "local_sgd", "momentum": 0.9, "keep_momentum": True}}
    client = DoubleCompression.model_validate(settings).client
    assert isinstance(client, LocalSGD)
    assert client.keep_momentum
