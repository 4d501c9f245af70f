"""A server and its clients run without what images of containers leave out."""

import os
from pathlib import Path

import pytest

from tests.integration.conftest import Make

LEFT_OUT = ("plotly", "narwhals", "pandas", "torch", "sklearn", "scipy", "packaging")


@pytest.mark.processes
def test_a_federation_runs_without_plots_and_torch(
    federation: Make, tmp_path: Path
) -> None:
    for name in LEFT_OUT:
        raising = f"raise ImportError('{name} is left out')\n"
        (tmp_path / f"{name}.py").write_text(raising)
    fed = federation(stop={"versions": 3}, evaluate={"every_versions": 1})
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    places = [str(tmp_path), *(place for place in before if place)]
    fed.environment["PYTHONPATH"] = os.pathsep.join(places)
    assert "plotly is left out" in fed.command("plotly").stderr
    server = fed.server()
    client = fed.client(0, 1, "--updates", "1000")
    assert (server.wait(), client.wait()) == (0, 0)
    for words in (
        ("journal", "verify", str(fed.run)),
        ("journal", "export", str(fed.run), "-o", "tables"),
        ("export", str(fed.run), "-o", "last.safetensors"),
        ("backup", str(fed.run), "backup"),
    ):
        done = fed.command("fedserver", *words)
        assert done.returncode == 0, done.stderr
