import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from fedcore.errors import WorkloadError
from fedcore.partitions import lone_class
from fedcore.workload import Client, Trained, Workload
from fedrun.data import digits
from fedview.report import (
    Shares,
    partition_page,
    partition_table,
    shares_of,
    summary_table,
)
from fedview.report.partition import skew
from fedview.results import Results
from tests.fedview.report.story import Story, short_story


def workload(data: Any, *, own_loop: bool = False) -> Workload:
    def train(params: Any, data: Any, task: Any) -> Trained:
        raise NotImplementedError

    def gradient(params: Any, x: Any, y: Any) -> Any:
        raise NotImplementedError

    functions: dict[str, Any] = {"train": train} if own_loop else {"gradient": gradient}
    return Workload(
        initial=lambda rng: {"w": np.zeros(3, np.float32)}, train_data=data, **functions
    )


def shared_digits(client: Client) -> Any:
    x, y = digits("train")
    rows = lone_class(y, clients=client.count, seed=0)[client.index]
    return x[rows], y[rows]


def printed(table: Any) -> str:
    console = Console(width=120, file=StringIO())
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def test_the_labels_of_each_client_are_counted() -> None:
    labels = [[0, 0, 2], [1]]
    shares = shares_of(
        workload(
            lambda c: (np.zeros((len(labels[c.index]), 1)), np.array(labels[c.index]))
        ),
        2,
    )
    assert shares.names == ["client-0", "client-1"]
    assert shares.samples_N.tolist() == [3, 1]
    assert shares.counts_NC is not None
    assert shares.counts_NC.tolist() == [[2, 0, 1], [0, 1, 0]]


def test_all_samples_of_a_real_data_set_are_found_again(tmp_path: Path) -> None:
    shares = shares_of(workload(shared_digits), 10)
    _, y = digits("train")
    assert shares.samples_N.sum() == len(y)
    assert shares.counts_NC is not None
    assert shares.counts_NC.sum(axis=0).tolist() == np.bincount(y).tolist()
    text = partition_page(shares, tmp_path / "page.html").read_text()
    assert f"10 clients hold {len(y):,} samples" in text
    assert "Clients and their data" in text
    found = re.search(r'<script type="application/json">(.*?)</script>', text)
    assert found is not None
    kinds = [trace["type"] for trace in json.loads(found[1])["data"]]
    assert kinds == ["heatmap", "bar"]
    assert "client-9" in printed(partition_table(shares))


def test_targets_that_are_no_labels_leave_the_sizes(tmp_path: Path) -> None:
    data = (np.zeros((7, 2)), np.linspace(0.0, 1.0, 7))
    shares = shares_of(workload(lambda client: data), 3)
    assert shares.counts_NC is None
    assert shares.samples_N.tolist() == [7, 7, 7]
    assert (
        "no integer labels"
        in partition_page(shares, tmp_path / "page.html").read_text()
    )
    assert "client-2" in printed(partition_table(shares))


def test_an_own_training_loop_may_hold_its_data_as_it_will() -> None:
    shares = shares_of(workload(lambda client: ["text"] * 5, own_loop=True), 2)
    assert shares.samples_N.tolist() == [5, 5]
    assert shares.counts_NC is None


def test_a_client_without_samples_is_an_error_that_names_it() -> None:
    empty = (np.zeros((0, 2)), np.zeros(0, int))
    with pytest.raises(WorkloadError, match="train_data of client-0"):
        shares_of(workload(lambda client: empty), 2)


def test_skew_is_0_where_all_are_alike_and_large_where_nobody_shares() -> None:
    alike = Shares(["a", "b"], np.array([4, 8]), np.array([[2, 2], [4, 4]]))
    assert "differ from those of all by 0 %" in " ".join(skew(alike))
    apart = Shares(["a", "b"], np.array([4, 4]), np.array([[4, 0], [0, 4]]))
    assert "differ from those of all by 50 %" in " ".join(skew(apart))


def test_thousands_of_clients_fit_on_a_page_and_a_screen(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 9, (5000, 100))
    names = [f"client-{i}" for i in range(5000)]
    shares = Shares(names, counts.sum(axis=1), counts)
    page = partition_page(shares, tmp_path / "page.html", "<b>many</b>")
    assert page.stat().st_size < 8e6
    assert "1,000 of 5,000 clients are drawn" in page.read_text()
    assert "<h1>&lt;b&gt;many&lt;/b&gt;</h1>" in page.read_text()
    text = printed(partition_table(shares))
    assert "… 4,980 more" in text
    assert len(text.splitlines()) < 40


def test_the_summary_for_the_terminal_says_what_the_page_says(tmp_path: Path) -> None:
    text = printed(summary_table(Results(short_story().write(tmp_path / "run"))))
    for words in (
        "Run 0123456789abcdef",
        "2 versions",
        "4.08 times less than uncompressed float32",
        "best 0.6 at version 1",
        "1 rejected, stale",
        "Nothing was lost.",
    ):
        assert words in text


def test_brackets_in_a_run_are_no_markup_of_the_terminal(tmp_path: Path) -> None:
    story = Story(run_id="[red]run[/red]")
    story.close(1.0, 0, "[bold]why[/bold]")
    text = printed(summary_table(Results(story.write(tmp_path / "run"))))
    assert "Run [red]run[/red]" in text
    assert "[bold]why[/bold]" in text
