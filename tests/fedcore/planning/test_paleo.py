"""Paleo's model: seconds of layers and of exchanges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fedcore.planning.paleo import (
    SCHEMES,
    Device,
    Exchange,
    Layer,
    Link,
    butterfly,
    layer_time,
    one_to_all,
    optimizer_layer,
    round_time,
    star,
    step_time,
    tree,
)

DEVICE = Device(peak_gflops=100, ppp=0.5, memory_gb_per_second=10)
LAYER = Layer(
    name="0",
    kind="linear",
    flops_forward=10**9,
    flops_backward=2 * 10**9,
    bytes_read=3 * 10**8,
    bytes_written=2 * 10**8,
    calls=5,
)
LINK = Link(up=1e6, down=1e6, server=1e9)
EXCHANGE = Exchange(values=10**6, up=10**4, down=10**6)


def test_a_layer_takes_its_flops_and_its_bytes() -> None:
    found = layer_time(LAYER, DEVICE)
    assert found.compute == pytest.approx(3e9 / 50e9)
    assert found.memory == pytest.approx(5e8 / 10e9)
    assert found.start == 0
    assert found.total == pytest.approx(0.06 + 0.05)


def test_starting_operations_is_an_additional_part() -> None:
    slow = DEVICE.model_copy(update={"call_microseconds": 10.0})
    assert layer_time(LAYER, slow).start == pytest.approx(5e-5)
    assert step_time([LAYER, LAYER], slow) == pytest.approx(2 * (0.11 + 5e-5))


def test_an_optimizer_reads_two_vectors_and_writes_one() -> None:
    assert optimizer_layer(1000).nbytes == 12_000


def test_exchanges_take_what_the_formulas_say() -> None:
    found = [scheme(8, EXCHANGE, LINK) for scheme in (one_to_all, tree, butterfly)]
    assert found == pytest.approx([14, 6, 3])  # S / B is 1 s


def test_logarithms_are_rounded_up() -> None:
    assert tree(5, EXCHANGE, LINK) == tree(8, EXCHANGE, LINK)
    assert butterfly(9, EXCHANGE, LINK) == pytest.approx(4)


def test_the_star_moves_the_bytes_of_the_codecs() -> None:
    assert star(8, EXCHANGE, LINK) == pytest.approx(1.01)
    narrow = LINK._replace(server=1e6)  # eight workers share it
    assert star(8, EXCHANGE, narrow) == pytest.approx(8.08)


@given(st.integers(1, 500), st.sampled_from(list(SCHEMES)))
def test_no_exchange_is_faster_with_one_worker_more(n: int, name: str) -> None:
    scheme = SCHEMES[name]
    assert scheme(n, EXCHANGE, LINK) <= scheme(n + 1, EXCHANGE, LINK) + 1e-12


def test_one_worker_exchanges_nothing_but_with_a_server() -> None:
    found = {name: scheme(1, EXCHANGE, LINK) for name, scheme in SCHEMES.items()}
    assert found.pop("star") > 0
    assert set(found.values()) == {0}


def test_overlap_takes_the_longer_of_the_two() -> None:
    assert round_time(2, 3) == 5
    assert round_time(2, 3, overlap=True) == 3


@pytest.mark.parametrize("field", ["peak_gflops", "memory_gb_per_second", "ppp"])
def test_a_device_that_does_nothing_is_refused(field: str) -> None:
    with pytest.raises(ValidationError, match="greater than 0"):
        Device.model_validate(DEVICE.model_dump() | {field: 0})
