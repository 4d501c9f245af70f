"""The command ``fedclient``."""

import os
import sys
import threading
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click

from fedclient.interruption import end_with_stdin, interruptible
from fedcore.text import decimals
from fedrun.cli.command import (
    PATH,
    app_option,
    data_option,
    example,
    in_sentences,
    json_option,
    key_and_value,
    methods_option,
    node_config_option,
    out_option,
    trust_options,
    verbose_option,
    with_options,
)
from fedrun.cli.help import CLIENT, COMPUTING, MODEL, OUTPUT, SERVER, Group, section
from fedrun.cli.plain_json import to_json

MOST = 2**32 - 1  # clients that the protocol can count


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    example="fedclient join HOST --app my_app:workload --state state/a",
    page="operations.md",
)
@click.version_option(package_name="latecomer")
def main() -> None:
    """Train for a federation on data that stay on this device."""
    # An error is one sentence, without the transport's own log around it.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


# The options of every command that joins a server.
LOG = with_options(
    section(
        OUTPUT,
        click.option(
            "--log",
            type=click.Choice(["text", "json"]),
            default="text",
            show_default=True,
            help="How to show what happens: json has one object a line, with the ids "
            "of run, client and task.",
        ),
        click.option("-q", "--quiet", is_flag=True, help="Log only warnings."),
    ),
    verbose_option,
)
MEMBER = with_options(
    click.argument("host"),
    app_option(required=True),
    methods_option,
    section(
        MODEL,
        click.option(
            "--model",
            "checkpoint",
            type=PATH,
            help="A file with version 0, so that it need not be downloaded.",
        ),
    ),
    trust_options,
    section(
        SERVER,
        click.option(
            "--give-up",
            type=click.FloatRange(min=0),
            metavar="SECONDS",
            help="How long to wait for the server before giving up. Without it, wait "
            "forever.",
        ),
    ),
    LOG,
)
DEVICE = section(
    COMPUTING,
    click.option(
        "--device",
        metavar="NAME",
        help="The device to compute on: cpu, cuda, cuda:1, mps, or auto for the best "
        "that this machine has. Without it, the app's own choice.",
    ),
)


# The options of a client with data.
STATE = "The client's own folder, which it keeps between starts."
NEEDED_STATE = section(
    CLIENT, click.option("--state", type=PATH, required=True, help=STATE)
)
DATA = with_options(
    section(
        CLIENT,
        click.option(
            "--name", default="", help="The client's name. Without it, a random one."
        ),
        click.option(
            "--index",
            type=click.IntRange(0, MOST),
            default=0,
            metavar="I",
            help="Which of --count clients this is, from 0; passed to train_data.",
        ),
        click.option(
            "--count",
            type=click.IntRange(1, MOST),
            default=1,
            metavar="N",
            help="How many clients share the data; passed to train_data.",
        ),
    ),
    data_option,
    node_config_option,
)
TRAINER = with_options(NEEDED_STATE, DATA)


# The options of a client that trains.
TRAINING = with_options(
    section(
        CLIENT,
        click.option(
            "--choose",
            multiple=True,
            metavar="SETTING=VALUE",
            help="A setting of the client algorithm that this client chooses itself, "
            "such as batch=8, where the federation lets it. May be given several "
            "times.",
        ),
        click.option(
            "--conditions",
            type=PATH,
            metavar="FILE",
            help="Begin tasks only while the conditions in this file hold: idle, "
            "charging, battery, unmetered, hours.",
        ),
        click.option(
            "--pace",
            default="0",
            metavar="SECONDS",
            help="The least time of each task, to spare the device; or a file with a "
            "line of seconds for each task, to imitate a slower device. The word "
            "'lost' behind the seconds has the task send nothing.",
        ),
        click.option(
            "--updates",
            type=click.IntRange(1),
            metavar="N",
            help="Leave for good after this many updates.",
        ),
    ),
    section(
        COMPUTING,
        click.option(
            "--workers",
            type=int,
            metavar="N",
            help="Compute the gradients in N processes of this machine, which share "
            "out the client's data.",
        ),
        click.option(
            "--stragglers",
            type=int,
            metavar="S",
            help="How many of --workers may be late or killed at any moment: each "
            "holds S + 1 of N shards of the data, and the gradient stays exact. "
            "Without it, none.",
        ),
    ),
    section(
        OUTPUT,
        click.option(
            "--phases",
            type=PATH,
            metavar="FILE",
            help="Record there when each phase of each task began, how long it took "
            "and how many bytes it sent. fedsim predict reads it.",
        ),
    ),
)


@main.command(
    epilog=example("fedclient model --app my_app:workload -o model.safetensors")
)
@app_option(required=True)
@section(
    MODEL,
    click.option(
        "--seed",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help="The seed of the run.",
    ),
    click.option(
        "--from",
        "source",
        type=PATH,
        metavar="FILE",
        help="Take the values from this safetensors file, by the names of its "
        "tensors. Without it, the app draws them.",
    ),
)
@out_option("The file to write.", "model.safetensors")
@click.option("--if-needed", is_flag=True, hidden=True)
@in_sentences
def model(app: str, out: Path, seed: int, source: Path | None, if_needed: bool) -> None:
    """Write version 0 of an app's model.

    A server starts from this file, without importing the app.
    """
    from fedclient.commands import fit_model, write_model

    if source is not None and if_needed:
        said = sys.stdout
        with redirect_stdout(
            sys.stderr
        ):  # what the app prints is no part of the output
            found = fit_model(app, out, source)
        click.echo(to_json(found), said)
        return
    click.echo(write_model(app, out, seed, source))


@main.command(
    epilog=example(
        "fedclient check fed.example.org --app my_app:workload --state state/a \\",
        "    --ca ca.pem",
    )
)
@MEMBER
@section(CLIENT, click.option("--state", type=PATH, help=f"{STATE} It is not made."))
@DATA
@DEVICE
@TRAINING
@json_option
@in_sentences
def check(
    quiet: bool,
    verbose: bool,
    log: str,
    give_up: float | None,
    updates: int | None,
    phases: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Check all that this client needs to join a federation.

    Takes the options of fedclient join. Reaches the server, compares versions and
    models, reads the data, takes one local step and sends one upload that does not
    count. Nothing stays at the server. The exit code is 0 if the client can join.
    """
    from fedclient.check.run import check as check_all

    out = sys.stdout
    with redirect_stdout(sys.stderr):  # what the app prints is no part of the output
        found = check_all(**given)
    lines = [to_json(found.to_json())] if as_json else found.lines()
    for line in lines:
        click.echo(line, out)
    if found.has_failed():
        sys.exit(1)


@main.command(
    epilog=example(
        "fedclient join 127.0.0.1:8443 --app my_app:workload --state state/a \\",
        "    --index 0 --count 2",
    )
)
@MEMBER
@TRAINER
@DEVICE
@TRAINING
@in_sentences
def join(
    updates: int | None,
    pace: str,
    choose: tuple[str, ...],
    phases: Path | None,
    workers: int | None,
    stragglers: int | None,
    conditions: Path | None,
    **given: Any,
) -> None:
    """Train for a federation until it has ended.

    HOST is where its server listens, such as 127.0.0.1:8443. Ctrl-C stops the client;
    the same command continues.
    """
    own = {"updates": updates, "phases": phases, "conditions": conditions}
    silo = {"workers": workers, "stragglers": stragglers}
    with (
        interruptible(given),
        _worker(given, pace=pace, choose=choose, **own, **silo) as worker,
    ):
        worker.run()


@main.command(
    epilog=example(
        "fedclient leave 127.0.0.1:8443 --app my_app:workload --state state/a"
    )
)
@MEMBER
@TRAINER
@in_sentences
def leave(**given: Any) -> None:
    """Leave a federation for good.

    The client first sends what it has not sent yet.
    """
    with interruptible(given), _worker(given) as worker:
        worker.leave_now()


@main.command(
    epilog=example(
        "fedclient evaluate 127.0.0.1:8443 --app my_app:workload --state state/e"
    )
)
@MEMBER
@section(
    CLIENT,
    click.option(
        "--state",
        type=PATH,
        help="The evaluator's own folder. Not needed with a certificate.",
    ),
    click.option(
        "--name", default="evaluator", show_default=True, help="The evaluator's name."
    ),
)
@DEVICE
@click.option("--until-stdin-closes", is_flag=True, hidden=True)
@in_sentences
def evaluate(
    host: str, state: Path | None, name: str, until_stdin_closes: bool, **given: Any
) -> None:
    """Evaluate a federation's models on test data.

    HOST is where the server listens; the test data are the app's test_data.
    """
    with interruptible(given):
        if until_stdin_closes:
            threading.Thread(target=end_with_stdin, daemon=True).start()
        from fedclient.commands import run_evaluator

        run_evaluator(host, state, name, **given)


@main.command(
    epilog=example("fedclient evaluate-file --app my_app:workload model.safetensors")
)
@click.argument("models", nargs=-1, required=True, metavar="MODEL...", type=PATH)
@app_option(required=True)
@DEVICE
@json_option
@in_sentences
def evaluate_file(
    app: str, models: tuple[Path, ...], device: str | None, as_json: bool
) -> None:
    """Evaluate model files on an app's test data.

    MODEL is a safetensors file, as fedserver export writes it. Where the targets are
    labels and the app has metrics of outputs, the recall of each class is among them.
    """
    from fedclient.commands import evaluate_models

    out = sys.stdout
    with redirect_stdout(sys.stderr):  # what the app prints is no part of the output
        for path, found in evaluate_models(app, models, device):
            if as_json:
                told = to_json({"model": str(path), **found.to_json()})
                click.echo(told, out)
                continue
            if len(models) > 1:
                click.echo(f"{path}:", out)
            click.echo(f"{found.samples} samples", out)
            for name, value in found.metrics.items():
                click.echo(f"{name} {decimals(value, 4)}", out)


def _worker(
    given: dict[str, Any], *, pace: str = "0", choose: Sequence[str] = (), **more: Any
) -> Any:
    """Returns a worker; what was typed as text is read."""
    from fedclient.commands import working
    from fedclient.device.pace import read_pace
    from fedclient.work.choices import read_choices

    given["data"] = dict(map(key_and_value, given["data"]))
    return working(pace=read_pace(pace), choose=read_choices(choose), **more, **given)
