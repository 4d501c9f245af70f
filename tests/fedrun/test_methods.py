"""Files of methods of a user's own, and packages that bring some."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import latecomer
from fedcore.coordinator.events import Stepped
from fedcore.errors import ConfigError
from fedrun import methods
from fedrun.config import parse_config
from fedrun.config.load import load_config, parse_algorithm
from fedrun.journal import Journal, verify
from fedrun.methods import load_methods, require_named
from fedrun.run import open_run
from fedview.results import Results
from tests.fedsim.toys import linear, settings, toy
from tests.integration.typed import desk, typed
from tests.patience import PATIENCE

WORKLOAD = linear()
OWN = '''
"""A staleness policy of a user's own."""

from typing import Literal

from fedcore.staleness.base import StalenessConfig, StalenessPolicy, memoryless


class Own(StalenessConfig):
    """Halves whatever is late."""

    kind: Literal["{kind}"] = "{kind}"

    def build(self) -> StalenessPolicy:
        """Returns the policy."""
        return memoryless(lambda staleness: {weight})
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with desk(tmp_path, monkeypatch) as here:
        yield here


def own(kind: str, weight: str = "0.5 if staleness else 1.0") -> Path:
    """A file whose method has this kind."""
    path = Path(f"methods_{kind}.py")
    path.write_text(OWN.format(kind=kind, weight=weight))
    return path


def config(kind: str, **changes: Any) -> dict[str, Any]:
    """A federation with that method."""
    given = settings(algorithm={"staleness": {"kind": kind}})
    return {**given, "methods": f"methods_{kind}.py", **changes}


def write(kind: str, staleness: str) -> Path:
    path = Path("fed.yaml")
    path.write_text(
        f"methods: methods_{kind}.py\n"
        f"algorithm: {{kind: fed_buff, staleness: {{kind: {staleness}}}}}\n"
    )
    return path


def test_a_file_that_the_config_names_brings_a_kind_like_any_other() -> None:
    file = own("halves")
    done = typed("fedserver", "check", write("halves", "halvs"))
    said = done.sentence(78)
    assert "fed.yaml:2: algorithm.staleness: unknown staleness policy 'halvs'" in said
    assert "did you mean 'halves'?" in said
    found = load_config(write("halves", "halves"))
    assert found.algorithm.staleness.kind == "halves"
    assert [each.file for each in found.methods] == [file.resolve()]
    assert "methods" not in found.algorithm.model_dump()  # what travels to clients
    told = found.algorithm.model_dump_json()
    assert parse_algorithm(told) == found.algorithm


def test_what_cannot_be_a_file_of_methods_is_refused_in_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"methods: .*absent.py: No such file"):
        load_methods(Path("absent.py"))
    Path("broken.py").write_text("import no_such_module")
    with pytest.raises(ConfigError, match=r"broken.py cannot be imported: .*no_such"):
        load_methods(Path("broken.py"))
    Path("empty.py").write_text("X = 1")
    with pytest.raises(ConfigError, match=r"empty.py defines no method"):
        load_methods(Path("empty.py"))
    with pytest.raises(ConfigError, match=r"methods.0: should be a section .*got 3"):
        parse_config({**settings(), "methods": 3})


def test_a_kind_of_this_project_cannot_be_taken() -> None:
    file = own("polynomial")
    with pytest.raises(ConfigError) as error:
        load_methods(file)
    assert "two staleness policy methods have the kind 'polynomial'" in str(error.value)
    assert "give one of them another kind" in str(error.value)
    parse_config(settings(algorithm={"staleness": {"kind": "polynomial"}}))


def test_the_newest_definition_counts_as_in_a_notebook(tmp_path: Path) -> None:
    file = own("changing")
    load_methods(file)
    own("changing", "0.25")
    load_methods(file)
    policy = parse_config(config("changing")).algorithm.staleness.build()
    assert policy.weigh(None, 3, None) == 0.25


def simulated(kind: str, name: str, **changes: Any) -> Results:
    return latecomer.run(config(kind, **changes), toy(), folder=name)


def test_a_run_is_read_with_the_file_that_it_was_made_with() -> None:
    file = own("recorded")
    run = simulated("recorded", "run")
    told = run.configured.config["methods"]
    assert told == [{"file": str(file.resolve()), "digest": load_methods(file).digest}]
    with closing(Journal.open(Path("run"), read_only=True)) as journal:
        assert verify(journal).recomputed
        file.write_text(file.read_text() + "# another\n")
        load_methods(file)
        with pytest.raises(ConfigError, match=r"has changed since .*put it back"):
            verify(journal)
        own("recorded")
        load_methods(file)
        assert verify(journal).recomputed


def test_nothing_is_imported_because_a_run_says_so() -> None:
    own("unnamed")
    told = {"methods": [{"file": "methods_unnamed.py", "digest": "0123456789abcdef"}]}
    with pytest.raises(ConfigError, match="only if you name it: --methods FILE"):
        require_named(told)
    with pytest.raises(ConfigError, match="only if you name it"):
        parse_config(settings(**told))


def test_a_pinned_digest_holds() -> None:
    file = own("pinned")
    digest = load_methods(file).digest
    latecomer.run(
        config("pinned", methods=[{"file": str(file), "digest": digest}]), toy()
    )
    file.write_text(file.read_text() + "\n")
    with pytest.raises(ConfigError, match="has changed"):
        latecomer.run(
            config("pinned", methods=[{"file": str(file), "digest": digest}]), toy()
        )


def test_a_run_goes_on_with_a_changed_file_only_if_it_is_told_to() -> None:
    file = own("amended")
    simulated("amended", "run")
    own("amended", "0.125")
    write("amended", "amended")
    given = config("amended", server={"journal": "run"}, stop={"versions": 99})
    given["methods"] = [{"file": str(file.resolve()), "digest": ""}]
    given["methods"][0]["digest"] = load_methods(file).digest
    with pytest.raises(ConfigError, match="has changed since"):
        open_run(parse_config(given), 0.0)
    run = open_run(parse_config(given), 0.0, amend=True)
    run.journal.close()
    open_run(parse_config(given), 0.0).journal.close()  # and now it is that of the run


def test_other_processes_of_a_simulation_have_the_methods(tmp_path: Path) -> None:
    own("elsewhere")
    found = []
    for processes in (1, 2):
        engine = {"kind": "stacked", "processes": processes}
        simulate = {"clients": 4, "engine": engine}
        run = latecomer.run(
            config("elsewhere", simulate=simulate),
            WORKLOAD,
            folder=tmp_path / f"{processes}",
        )
        found.append([each.digest for each in run.of(Stepped)])
    assert found[0] == found[1]
    assert len(found[0]) == 8


PACKAGE = {
    "brought.py": OWN.format(kind="brought", weight="0.5"),
    "brought-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: brought\n"
    "Version: 1.0\n",
    "brought-1.0.dist-info/entry_points.txt": "[latecomer.methods]\nmine = brought\n",
}


@pytest.mark.processes
@pytest.mark.processes
def test_an_installed_package_brings_methods_by_an_entry_point(folder: Path) -> None:
    for name, text in PACKAGE.items():
        path = folder / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    yaml = folder / "fed.yaml"
    yaml.write_text("algorithm: {kind: fed_buff, staleness: {kind: brought}}\n")
    done = check(folder, yaml)
    assert done.returncode == 0, done.stderr
    assert "kind: brought" in done.stdout
    (folder / "site" / "brought.py").write_text("import no_such_module")
    done = check(folder, yaml)
    assert done.returncode == 78
    assert "the methods of package brought cannot be imported" in done.stderr
    yaml.write_text("algorithm: {kind: fed_buff}\n")
    assert check(folder, yaml).returncode == 0  # nobody asks for it


def check(folder: Path, yaml: Path) -> "subprocess.CompletedProcess[str]":
    """What ``fedserver check`` says where the package is installed."""
    before = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(folder / "site"), *([before] if before else [])])
    return subprocess.run(
        [sys.executable, "-m", "fedserver", "check", str(yaml)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def test_a_file_of_another_digest_is_not_even_run() -> None:
    file = own("swapped")
    file.write_text(file.read_text() + "\nopen('it_was_run', 'w').close()\n")
    given = config("swapped", methods=[{"file": str(file), "digest": "0" * 16}])
    Path("fed.json").write_text(json.dumps({"methods": given["methods"]}))
    with pytest.raises(ConfigError, match="has changed since"):
        load_config(Path("fed.json"))
    assert not Path("it_was_run").exists()


def test_files_of_one_name_in_two_folders_are_two_files() -> None:
    for kind in ("in_one", "in_other"):
        Path(kind).mkdir()
        Path(kind, "mine.py").write_text(OWN.format(kind=kind, weight="1.0"))
    files = ["in_one/mine.py", "in_other/mine.py"]
    for kind in ("in_one", "in_other"):
        text = {
            "methods": files,
            "algorithm": {"kind": "fed_buff", "staleness": {"kind": kind}},
        }
        Path("fed.json").write_text(json.dumps(text))
        assert load_config(Path("fed.json")).algorithm.staleness.kind == kind


def test_a_package_that_exits_or_clashes_is_told_of_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Point:
        dist, value = None, "leaves"

        def load(self) -> None:
            raise SystemExit(0)

    monkeypatch.setattr(methods, "entry_points", lambda group: [Point()])
    monkeypatch.setattr(methods, "_INSTALLED", [])
    monkeypatch.setattr(methods, "_BROKEN", [])
    methods.load_installed()
    assert "package leaves cannot be imported: it called sys.exit(" in methods.missing()

    def clash(whose: str) -> None:
        raise ConfigError("two of a kind")

    monkeypatch.setattr(Point, "load", lambda self: None)
    monkeypatch.setattr(methods, "_INSTALLED", [])
    monkeypatch.setattr(methods, "_refuse_clashes", clash)
    for _ in range(2):
        with pytest.raises(ConfigError, match="two of a kind"):
            methods.load_installed()
