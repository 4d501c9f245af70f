"""What a snapshot holds comes back as it was, and nothing else can be made of it."""

import json
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore.controllers import Assignment
from fedcore.coordinator.events import Timer
from fedcore.participant import ParticipantState, Sent
from fedcore.protocol import Held, Settled, Verdict
from fedcore.trees import Arrays
from fedsim.saved_values import load, save


class Foreign(NamedTuple):
    """A tuple of a user's method."""

    size: int


def again(value: Any) -> Any:
    """A value that went through a file."""
    arrays: Arrays = {}
    return load(json.loads(json.dumps(save(value, arrays))), arrays)


leaves: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
)
leaves |= st.text() | st.binary() | st.sampled_from(Verdict)
leaves |= st.builds(Held, st.text(), st.integers(), st.text())
leaves |= st.builds(Timer, st.just("lease"), st.text(), st.integers())
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner)
    ),
)


@given(values)
def test_a_value_comes_back_equal_and_of_its_class(value: Any) -> None:
    found = again(value)
    assert found == value
    assert type(found) is type(value)


def test_a_client_comes_back_with_its_vectors() -> None:
    state = ParticipantState(
        "ann",
        "run",
        "epoch",
        held=Held("epoch", 3, "digest"),
        memory_D=np.array([1, -0.0, np.nan], np.float32),
        settled=Settled(2, Verdict.ACCEPTED, 7),
        history=(Sent(1, b"\x00\xff", in_model=True),),
        kept={"moments": (np.float32(0.1), Foreign(3))},
        given=Assignment(0.5, 1.0, 8),
    )
    found = again(state)
    assert found.memory_D.tobytes() == state.memory_D.tobytes()  # type: ignore[union-attr]
    assert found.memory_D.flags.writeable
    assert (found.settled, found.history, found.given) == (
        state.settled,
        state.history,
        state.given,
    )
    assert found.kept == {"moments": (np.float32(0.1), (3,))}
    assert type(found.kept["moments"][0]) is np.float32


@pytest.mark.parametrize(
    "name", ["os:system", "fedcore.nowhere:X", "fedrun.run:Run", "fedcore.rng:Key.root"]
)
def test_no_other_class_is_made_of_what_a_file_says(name: str) -> None:
    made: list[dict[str, Any]] = [{name: []}, {"enum": name, "is": "x"}]
    for saved in made:
        with pytest.raises(ValueError, match="is no class of a snapshot"):
            load(saved, {})


def test_what_cannot_be_saved_is_named() -> None:
    with pytest.raises(TypeError, match="a snapshot holds no"):
        save(object(), {})
