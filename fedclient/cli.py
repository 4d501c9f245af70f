"""The command ``fedclient``."""

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import click

from fedrun.command import in_sentences, log_printable

PATH = click.Path(path_type=Path)
MOST = 2**32 - 1  # clients that the protocol can count
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
GRACE = 5.0  # seconds for a polite end; the state is on disk at any moment


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="latecomer")
def main() -> None:
    """Trains for a federation on data that stays here."""
    # An error is one sentence, without the transport's own log around it.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def _member(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that joins a server."""
    for option in (
        click.option("-q", "--quiet", is_flag=True, help="Only warnings."),
        click.option(
            "--give-up",
            type=click.FloatRange(min=0),
            metavar="SECONDS",
            help="End if the server does not answer for so long; without, wait.",
        ),
        click.option("--plaintext", is_flag=True, help="No TLS beyond this machine."),
        click.option("--key", type=PATH, help="The certificate's private key."),
        click.option("--certificate", type=PATH, help="This client's certificate."),
        click.option("--ca", type=PATH, help="Who signed the server's certificate."),
        click.option("--model", "checkpoint", type=PATH, help="Version 0, if here."),
        click.option("--app", required=True, help="module:attribute of the workload."),
    ):
        function = option(function)
    return click.argument("host")(function)


def _trainer(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a client with data."""
    for option in (
        click.option("--state", type=PATH, required=True, help="Its own folder."),
        click.option("--name", default="", help="Its name; without, a random one."),
        click.option(
            "--index",
            type=click.IntRange(0, MOST),
            default=0,
            help="Which of --count clients it is, from 0; train_data is told.",
        ),
        click.option(
            "--count",
            type=click.IntRange(1, MOST),
            default=1,
            help="How many share the data; train_data is told.",
        ),
        click.option(
            "--data",
            multiple=True,
            metavar="KEY=VALUE",
            help="For train_data, as client.args; may be given again.",
        ),
    ):
        function = option(function)
    return function


@main.command()
@_member
@_trainer
@click.option("--updates", type=click.IntRange(1), help="Leave for good after so many.")
@click.option(
    "--pace",
    default="0",
    metavar="SECONDS",
    help="A task takes at least so long, to spare the device; or a file with a line "
    "for each task, to play a slower one; 'lost' behind the seconds: nothing is sent.",
)
@in_sentences
def join(updates: int | None, pace: str, **given: Any) -> None:
    """Train for the federation at HOST until it has ended."""
    with _politely(given), _worker(given, updates=updates, pace=pace) as worker:
        worker.run()


@main.command()
@_member
@_trainer
@in_sentences
def leave(**given: Any) -> None:
    """Leave the federation at HOST for good; what is still here is sent first."""
    with _politely(given), _worker(given) as worker:
        worker.leave_now()


@main.command()
@_member
@click.option(
    "--state",
    type=PATH,
    help="Its own folder; with a certificate, a temporary one will do.",
)
@click.option("--name", default="evaluator", show_default=True)
@click.option("--on-a-leash", is_flag=True, hidden=True)
@in_sentences
def evaluate(
    host: str, state: Path | None, name: str, on_a_leash: bool, **given: Any
) -> None:
    """Evaluate the models of the federation at HOST on the workload's test data."""
    with _politely(given):
        if on_a_leash:
            threading.Thread(target=_end_with_stdin, daemon=True).start()
        from fedclient.commands import examine

        examine(host, state, name, **given)


@main.command()
@click.argument("app")
@click.option("-o", "--out", type=PATH, default=Path("model.safetensors"))
@click.option("--seed", type=click.IntRange(0), default=0, help="The run's seed.")
@in_sentences
def model(app: str, out: Path, seed: int) -> None:
    """Write version 0 of APP's model, from which a server starts."""
    from fedclient.commands import write_model

    click.echo(write_model(app, out, seed))


@main.command()
@click.argument("app")
@click.argument("model", type=PATH)
@in_sentences
def score(app: str, model: Path) -> None:
    """Evaluate a model file on APP's test data."""
    from fedclient.commands import score_model

    for line in score_model(app, model):
        click.echo(line)


@contextlib.contextmanager
def _politely(given: dict[str, Any]) -> Iterator[None]:
    """Logging, and a polite end on Ctrl-C and SIGTERM: the state is on disk."""
    level = logging.WARNING if given.pop("quiet") else logging.INFO
    log_printable(level, "%(asctime)s %(message)s", "%H:%M:%S")

    is_ending = threading.Event()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if not is_ending.is_set():
            is_ending.set()
            # Interrupted inside gRPC, now and then its channel never closes; a thread
            # of the user's code may not end either.
            last = threading.Timer(GRACE, _end_at_once)
            last.daemon = True
            last.start()
        raise KeyboardInterrupt

    before = {which: signal.signal(which, interrupt) for which in _SIGNALS}
    try:
        yield
    except KeyboardInterrupt:
        _say_goodbye()
    finally:
        for which, handler in before.items():
            signal.signal(which, handler or signal.SIG_DFL)


def _end_at_once() -> None:
    _say_goodbye()
    os._exit(0)


def _say_goodbye() -> None:
    logging.getLogger("fedclient").info("interrupted; the same command goes on")


def _end_with_stdin() -> None:
    """Ends this process when whoever started it is gone."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _worker(given: dict[str, Any], **more: Any) -> Any:
    from fedclient.commands import working

    return working(**more, **given)
