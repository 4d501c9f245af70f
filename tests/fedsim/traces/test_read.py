"""A trace as CSV: read, written, and every mistake in it told in one sentence."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore.errors import ConfigError
from fedsim.traces import ClientTrace, Segment, read_trace, read_values, write_trace
from fedsim.traces.format import COLUMNS, OF_DATA

HEADER = ",".join(COLUMNS)
OF_DEVICES = ",".join(name for name in COLUMNS if name not in OF_DATA)
ALLOWED = ", ".join(COLUMNS)


def read(folder: Path, text: str) -> list[ClientTrace]:
    path = folder / "t.csv"
    path.write_text(text)
    return read_trace(path)


def test_a_chain_of_segments_is_a_life(tmp_path: Path) -> None:
    ann, bob = read(
        tmp_path,
        "client,state,start,end,steps,latency,up_mbit\n"
        "ann,away,0,5,,0.5,\n"
        "bob,there,0,,,,2.5\n"
        "ann,there,5,6,,,\n"
        "ann,task,6,10,4,,inf\n"
        "\n"
        "ann,away,10,20,,0.5,\n"
        "ann,task,20,,2,,\n",
    )
    assert (ann.name, ann.latency, ann.step_seconds) == ("ann", 0.5, None)
    assert list(ann.stays) == [(5.0, 10.0), (20.0, math.inf)]
    assert ann.seconds_a_step(0.0) == [1.0]  # a task without an end has no duration
    assert ann.seconds_a_step(0.5) == [(4 - 3 * 0.5) / 4]
    assert (bob.up_mbit, bob.down_mbit, bob.latency) == (2.5, None, None)
    assert list(bob.stays) == [(0.0, math.inf)]


RATES = st.none() | st.floats(1e-3, 1e6).map(lambda x: round(x, 6))
STATES = st.lists(
    st.tuples(st.sampled_from(["away", "there", "task"]), st.integers(1, 9)),
    min_size=1,
    max_size=8,
)


@given(
    lives=st.lists(STATES, min_size=1, max_size=4),
    rate=RATES,
    latency=RATES,
    endless=st.booleans(),
    shared=st.booleans(),
)
def test_what_was_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory,
    lives: list[list[tuple[str, int]]],
    rate: float | None,
    latency: float | None,
    endless: bool,
    shared: bool,
) -> None:
    clients = [ClientTrace("here", [Segment(0.0, 1.0, "there")], up_mbit=rate)]
    for number, states in enumerate(lives):
        client = ClientTrace(f"c,{number}", latency=latency, step_seconds=rate)
        at = 0.0
        for state, length in states:
            end = round(at + length / 7, 9)
            steps = length if state == "task" else 0
            client.segments.append(Segment(at, end, state, steps))  # type: ignore[arg-type]
            at = end
        if endless:
            client.segments[-1] = client.segments[-1]._replace(end=math.inf)
        clients.append(client)
    for place, client in enumerate(clients if shared else []):
        client.index, client.count = 2 * place, 9
    path = tmp_path_factory.mktemp("trace") / "t.csv"
    write_trace(path, clients)
    assert read_trace(path) == clients


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", f" no clients; expected the columns {ALLOWED} and a row for each"),
        (HEADER, f" no clients; expected the columns {ALLOWED} and a row for each"),
        ("client,start,end\n", "1: no column 'state'; needed: client, start, end, "),
        (
            "client,start,end,state,speed\n",
            f"1: unknown column 'speed'; allowed: {ALLOWED}",
        ),
        ("client,start,start,state\n", "1: column 'start' is there twice"),
        ("a,0,1", "2: 3 values, and the header has 4 columns"),
        (",0,1,there", "2: client is empty; expected its name"),
        ("a,0,1,here", "2: state 'here'; allowed: away, there, task"),
        ("a,x,1,there", "2: start 'x'; expected seconds, a number of at least 0"),
        ("a,-1,1,there", "2: start '-1'; expected seconds, a number of at least 0"),
        ("a,0,nan,there", "2: end 'nan'; expected seconds, a number of at least 0"),
        ("a,0,inf,there", "2: end 'inf'; expected seconds, a number of at least 0"),
        ("a,,1,there", "2: start ''; expected seconds, a number of at least 0"),
        ("a,0,0,there", "2: end 0 is not after start 0"),
        ("a,3,1,there", "2: end 1 is not after start 3"),
        (
            "a,5,6,there",
            "2: a: start 5, and its first row must start at 0; state away fills the "
            "time before it comes",
        ),
        (
            "a,0,2,there\nb,0,9,there\na,3,4,away",
            "4: a: start 3 leaves a gap, since its row before ends at 2; state away "
            "fills the time in which it is not there",
        ),
        (
            "a,0,2,there\na,1,4,away",
            "3: a: start 1 overlaps its row before, which ends at 2",
        ),
        (
            "a,0,2,there\na,2,4,away\na,1,2,there",
            "4: a: start 1 is out of order, since its row before starts at 2; a "
            "client's rows must be in the order of time",
        ),
        (
            "a,0,,there\na,2,4,away",
            "3: a: start 2, but its row before has no end; only the last may",
        ),
        ("a,0,1,away\nb,0,,away", " no client is ever there; expected rows of state"),
        ('a,0,1,"away', "2: not CSV: unexpected end of data"),
    ],
)
def test_a_mistake_is_told_with_its_line(
    tmp_path: Path, text: str, sentence: str
) -> None:
    if text and not text.startswith("client"):
        text = f"client,start,end,state\n{text}"
    with pytest.raises(ConfigError) as error:
        read(tmp_path, text)
    said = str(error.value)
    assert said.removeprefix(f"{tmp_path / 't.csv'}:").startswith(sentence)
    assert "\n" not in said


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("task,,,,,", "2: steps ''; a task needs a whole number of at least 1"),
        ("task,1.5,,,,", "2: steps '1.5'; a task needs a whole number of at least 1"),
        ("task,0,,,,", "2: steps '0'; a task needs a whole number of at least 1"),
        ("there,3,,,,", "2: steps '3' in state there; only a task has steps"),
        ("there,,-1,,,", "2: step_seconds '-1'; expected a number above 0"),
        ("there,,inf,,,", "2: step_seconds 'inf'; expected a number above 0"),
        ("there,,,fast,,", "2: up_mbit 'fast'; expected a number above 0, or inf"),
        ("there,,,,0,", "2: down_mbit '0'; expected a number above 0, or inf"),
        ("there,,,,,-1", "2: latency '-1'; expected a number of at least 0"),
        ("there,,,,,inf", "2: latency 'inf'; expected a number of at least 0"),
        (
            "task,2,,5,,",
            "2: a: up_mbit beside a task, whose time includes its transfers; leave it "
            "empty, or say inf",
        ),
        (
            "task,2,,,,\na,1,2,there,,,,5,",
            "3: a: down_mbit beside a task, whose time includes its transfers; leave "
            "it empty, or say inf",
        ),
        (
            "there,,,5,,\na,1,2,there,,,6,,",
            "3: a: up_mbit is 6 here and 5 above; a client has one, said in any of its "
            "rows",
        ),
    ],
)
def test_a_mistake_about_a_client_is_told_with_its_line(
    tmp_path: Path, row: str, sentence: str
) -> None:
    with pytest.raises(ConfigError) as error:
        read(tmp_path, f"{OF_DEVICES}\na,0,1,{row}\n")
    assert str(error.value) == f"{tmp_path / 't.csv'}:{sentence}"


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ("a,0,1,there,3,", "2: a: index without count; say both or neither"),
        ("a,0,1,there,,3", "2: a: count without index; say both or neither"),
        ("a,0,1,there,-1,3", "2: index '-1'; expected a whole number of at least 0"),
        ("a,0,1,there,1.5,3", "2: index '1.5'; expected a whole number of at least 0"),
        ("a,0,1,there,0,0", "2: count '0'; expected a whole number of at least 1"),
        (
            "a,0,1,there,4,4",
            "2: a: index 4 of count 4; the first is 0 and the last is 3",
        ),
        (
            "a,0,1,there,1,4\na,1,2,there,2,4",
            "3: a: index is 2 here and 1 above; a client has one, said in any of its "
            "rows",
        ),
        (
            "a,0,1,there,,\nb,0,1,there,1,4",
            " b has an index and a count, a has none; say them of all clients or of "
            "none",
        ),
    ],
)
def test_a_mistake_about_a_clients_data_is_told(
    tmp_path: Path, rows: str, sentence: str
) -> None:
    with pytest.raises(ConfigError) as error:
        read(tmp_path, f"client,start,end,state,index,count\n{rows}\n")
    assert str(error.value) == f"{tmp_path / 't.csv'}:{sentence}"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.csv: No such file"):
        read_trace(tmp_path / "none.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"binary\.csv: not a text in UTF-8"):
        read_trace(tmp_path / "binary.csv")
    with pytest.raises(ConfigError, match="No such file"):
        write_trace(tmp_path / "no" / "t.csv", [])


@pytest.mark.parametrize("text", ["1\n2.5\n", "seconds\n1\n2.5", "\ufeff1\n\n2.5\n"])
def test_values_stand_one_a_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "v.csv"
    path.write_text(text, encoding="utf-8")
    assert read_values(path) == (1.0, 2.5)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "no values; expected one number above 0 a line"),
        ("name\n", "no values; expected one number above 0 a line"),
        ("1\nx\n", "2: expected a number above 0, got 'x'"),
        ("1\n0\n", "2: expected a number above 0, got '0'"),
        ("1\nnan\n", "2: expected a number above 0, got 'nan'"),
        ("1\n2,3\n", "2: expected one value a line, got 2"),
    ],
)
def test_a_value_that_is_none_is_told_with_its_line(
    tmp_path: Path, text: str, sentence: str
) -> None:
    path = tmp_path / "v.csv"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        read_values(path)
    assert str(error.value).replace(f"{path}:", "").strip() == sentence
