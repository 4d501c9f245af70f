"""Two screens of a real run: the live view in its middle, and its report at the end.

A server, its evaluator and eight clients run on this machine for a minute or two. One
client is slow and alone has a class; another one is killed and comes back.
"""

import asyncio
import io
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from fedrun.config import load_config
from fedrun.run import Run, open_run
from fedserver.children import fit_model, keep_evaluating
from fedserver.server import Server
from fedserver.view.live import LiveView
from fedserver.view.progress import Progress
from fedview.report import write_report
from tools.local import LocalFederation

APP = Path(__file__).parent.parent.parent / "examples" / "demo" / "app.py"
CLIENTS, SLOW, PACE = 8, 1.6, 0.45  # the slow one's seconds for a task, and the others'
KILLED = 3  # the client that is killed, and comes back when the view was drawn
KILLS, SHOWN, LAST = 80, 105, 160  # versions at which something happens
COLUMNS, ROWS = 80, 30  # of the terminal
WIDTH, HEIGHT = 1100, 975  # pixels of the report's page that are shown
CONFIG: dict[str, Any] = {
    "app": f"{APP}:workload",
    "model": "model.safetensors",
    "server": {"listen": "127.0.0.1:8443", "journal": "run"},
    "algorithm": {
        "kind": "latecomer",
        "buffer": 4,
        "client": {"kind": "local_sgd", "lr": 0.2, "steps": 20, "batch": 16},
    },
    "evaluate": {"every_versions": 10},
    "stop": {"versions": LAST},
}
_FONTS = re.compile(r" *@font-face \{.*?\}\n", re.DOTALL)  # that would be downloaded


def take(view: Path, report: Path, browser: str) -> None:
    """Runs the federation, and writes both pictures.

    Args:
        view: the file of the live view, an SVG.
        report: the file of the report, a PNG.
        browser: a program that takes the options of Chromium.
    """
    with tempfile.TemporaryDirectory() as folder:
        with LocalFederation(Path(folder), CONFIG, app=CONFIG["app"]) as real:
            view.write_text(asyncio.run(_run(real)), encoding="utf-8")
            page = write_report(real.run)
        _photograph(page, report, browser)


async def _run(real: LocalFederation) -> str:
    """Serves the run to its end; returns the live view of its middle as an SVG."""
    config = load_config(real.path)
    with fit_model(config, real.folder) as model:
        run = open_run(config, time.time(), model=model)
    progress = Progress()
    server = Server(run, progress)
    serving = asyncio.create_task(server.serve())
    await server.ready.wait()
    assert server.operator_socket is not None
    evaluating = asyncio.create_task(
        keep_evaluating(
            config, real.folder, server.operator_socket, server.over, lambda: None
        )
    )
    console = Console(record=True, file=io.StringIO(), width=COLUMNS, height=ROWS)
    with LiveView(progress, console):  # it is drawn once, at its end
        await _play(real, run, progress.address)
    text = console.export_svg(title="fedserver run federation.yaml", unique_id="view")
    _join(real, KILLED, progress.address)
    await serving
    await evaluating
    text = text.replace("Fira Code, monospace", "ui-monospace, Menlo, monospace")
    return _FONTS.sub("", text)


async def _play(real: LocalFederation, run: Run, address: str) -> None:
    """Starts the clients, and kills one of them."""
    for index in range(CLIENTS):
        _join(real, index, address)
    await _reaches(real, run, KILLS)
    real.children[_name(KILLED)].kill()
    await _reaches(real, run, SHOWN)


async def _reaches(real: LocalFederation, run: Run, version: int) -> None:
    while run.coordinator.state.version < version:
        real.check()
        await asyncio.sleep(0.1)


def _join(real: LocalFederation, index: int, address: str) -> None:
    pace = f"{PACE if index else SLOW}"
    words = ("--pace", pace)
    real.client(index, CLIENTS, *words, name=_name(index), host=address)


def _name(index: int) -> str:
    return f"hospital-{index + 1}"


def _photograph(page: Path, picture: Path, browser: str) -> None:
    """Writes the upper part of a page as a PNG."""
    with tempfile.TemporaryDirectory() as profile:
        options = [
            "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
            "--no-first-run", "--disable-background-networking",
            "--disable-component-update", "--disable-sync", "--hide-scrollbars",
            "--virtual-time-budget=10000", f"--user-data-dir={profile}",
            f"--window-size={WIDTH},{HEIGHT}", "--screenshot=report.png",
        ]  # fmt: skip
        subprocess.run(
            [browser, *options, page.as_uri()],
            cwd=profile,
            check=True,
            capture_output=True,
        )
        shutil.copy(Path(profile) / "report.png", picture)
