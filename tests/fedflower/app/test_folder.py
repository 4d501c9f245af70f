"""The folder of a Flower app, and the names of such apps."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from fedcore.errors import ConfigError, WorkloadError
from fedflower.app.folder import (
    FlowerFolder,
    app_name,
    node_items,
    parse_name,
    read_config,
    scalar,
)
from tests.fedflower.app.apps import PYPROJECT


def written(folder: Path, text: str) -> Path:
    (folder / "pyproject.toml").write_text(text)
    return folder


def test_a_folder_says_what_flower_reads_from_it(tmp_path: Path) -> None:
    found = FlowerFolder.read(written(tmp_path, PYPROJECT))
    assert (found.name, found.nodes) == ("tiny", 4)
    assert found.client == "tiny.client_app:app"
    assert found.server == "tiny.server_app:app"
    assert found.config == {
        "num-server-rounds": 3,
        "lr": 0.5,
        "nested.words": "some words",
    }


def test_a_folder_without_federations_has_ten_clients(tmp_path: Path) -> None:
    text = PYPROJECT[: PYPROJECT.index("[tool.flwr.federations]")]
    assert FlowerFolder.read(written(tmp_path, text)).nodes == 10


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[project]\nname = 'x'\n", "no Flower app: .* has no clientapp"),
        ("tool.flwr.app.components = 3\n", "has no clientapp"),
        (PYPROJECT.replace("tiny.client_app:app", "tiny.client_app"), "no clientapp"),
        (PYPROJECT.replace("tiny.server_app:app", "nowhere"), "serverapp: expected"),
        (PYPROJECT.replace("lr = 0.5", "lr = [0.5]"), "config.lr: expected a number"),
        ("no toml", "no TOML"),
    ],
)
def test_a_folder_that_is_no_flower_app_is_refused(
    tmp_path: Path, text: str, words: str
) -> None:
    with pytest.raises(WorkloadError, match=words):
        FlowerFolder.read(written(tmp_path, text))


def test_a_folder_without_pyproject_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        WorkloadError, match=r"no Flower app: it has no pyproject\.toml"
    ):
        FlowerFolder.read(tmp_path)


def test_a_name_holds_what_is_replaced(tmp_path: Path) -> None:
    name = app_name("apps/quick", ['lr=0.25 words="a & b" on=true n=3', "x='y'"])
    folder, values = parse_name(name, tmp_path)
    assert folder == tmp_path / "apps/quick"
    assert values == {"lr": 0.25, "words": "a & b", "on": True, "n": 3, "x": "y"}


def test_a_run_config_may_be_a_file(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text("lr = 0.1\nnested.words = 'more'\n")
    _, values = parse_name(app_name("app", [str(file)]), tmp_path)
    assert values == {"lr": 0.1, "nested.words": "more"}


@pytest.mark.parametrize("text", ["lr", "lr=0.1 and", "=3"])
def test_a_run_config_that_is_no_pair_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--run-config .*: expected"):
        app_name("app", [text])


def test_a_node_config_becomes_items_of_data() -> None:
    items = node_items(['partition-id=1 path="/data/a b"'])
    assert items == ["partition-id=1", 'path="/data/a b"']
    assert scalar(items[1].partition("=")[2]) == "/data/a b"


def test_code_that_changes_has_another_digest(tmp_path: Path) -> None:
    folder = FlowerFolder.read(written(tmp_path, PYPROJECT))
    before = folder.digest()
    (tmp_path / "new.py").write_text("")
    assert folder.digest() != before


@pytest.mark.parametrize(
    "file",
    [
        ".venv/lib/python3.11/site-packages/numpy/core.py",
        "my-env/lib/python3.11/site-packages/numpy/core.py",
        "venv/bin/activate_this.py",
        ".git/hooks/pre-commit.py",
        "app/__pycache__/app.py",
        "web/node_modules/gyp/main.py",
        "web/.ipynb_checkpoints/app.py",
        "build/lib/app.py",
        "old.egg/app.py",
        "app/test_model.py",
        "app/model_test.py",
    ],
)
def test_what_flowers_build_leaves_out_is_no_code_of_the_app(
    tmp_path: Path, file: str
) -> None:
    folder = FlowerFolder.read(written(tmp_path, PYPROJECT))
    before = folder.digest()
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text("")
    assert folder.digest() == before


def test_code_in_a_folder_that_is_named_like_one_of_a_tool_counts_further_down(
    tmp_path: Path,
) -> None:
    folder = FlowerFolder.read(written(tmp_path, PYPROJECT))
    before = folder.digest()
    path = tmp_path / "app" / "lib" / "model.py"
    path.parent.mkdir(parents=True)
    path.write_text("")
    assert folder.digest() != before


def test_libraries_in_the_folder_are_not_imported_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = FlowerFolder.read(written(tmp_path, PYPROJECT))
    files = {"lib": ".venv/lib/python3/site-packages/a_lib.py", "app": "an_app.py"}
    for name, file in files.items():
        module = ModuleType(name)
        module.__file__ = str(folder.path / file)
        monkeypatch.setitem(sys.modules, f"flower_{name}", module)
    folder.forget()
    assert "flower_lib" in sys.modules
    assert "flower_app" not in sys.modules


@pytest.mark.parametrize(
    "value", ["C:\\new", 'a"b', "it\ty", "5", "a&b?c=d%20", "\u00fc"]
)
def test_a_text_comes_through_a_name_as_it_was(value: str) -> None:
    quote = "'" if '"' in value or "\\" in value else '"'
    name = app_name("app", [f"key={quote}{value}{quote}"])
    assert parse_name(name, Path("/"))[1] == {"key": value}


def test_a_config_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--run-config .*gone\.toml: No such file"):
        read_config(str(tmp_path / "gone.toml"), "--run-config")


def test_a_lock_of_an_editor_is_no_code(tmp_path: Path) -> None:
    folder = FlowerFolder.read(written(tmp_path, PYPROJECT))
    before = folder.digest()
    (tmp_path / ".#app.py").symlink_to("nobody@nowhere")
    assert folder.digest() == before
