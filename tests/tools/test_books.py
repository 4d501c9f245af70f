from pathlib import Path

from fedrun.checkpoints import CheckpointKeeper
from tests.fedclient.test_member import worker
from tests.fedrun.journal.runs import Written
from tests.served import Served, settings
from tools.books import audit


def test_the_books_of_a_run_balance(tmp_path: Path) -> None:
    config = settings(tmp_path, stop={"versions": 3}, timeouts={"linger": 9.0})
    with Served(tmp_path, config) as server:
        with worker(server, tmp_path / "ann") as ann:
            ann.run()
        server.wait()
    books = audit(tmp_path / "run", [tmp_path / "ann"])
    assert books.acknowledged == books.journalled == books.applied == 3
    assert (books.lost, books.doubled, books.unsettled, books.waiting) == (0, 0, 0, 0)
    assert books.model == books.replayed
    assert all(sound for _, _, sound in books.rows())


def test_an_update_that_no_client_knows_of_is_noticed(tmp_path: Path) -> None:
    run = Written(tmp_path)
    run.push()
    CheckpointKeeper(run.run).save_last()
    run.close()
    books = audit(run.folder, [])
    assert (books.acknowledged, books.journalled) == (0, 1)
    assert not all(sound for _, _, sound in books.rows())
