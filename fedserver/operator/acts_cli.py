"""``fedserver pause|resume|evict|snapshot``: what an operator does to a run."""

from typing import Any

import click

from fedrun.cli.command import (
    example,
    in_sentences,
    methods_option,
    trust_options,
    with_options,
)
from fedrun.cli.help import command

RUN_OR_HOST = click.argument("run", metavar="RUN|HOST")
reason_option = click.option(
    "--reason",
    default="",
    metavar="TEXT",
    help="Why, for the record and for the clients.",
)
ACT = with_options(RUN_OR_HOST, trust_options, methods_option)


def add_acts(group: click.Group) -> None:
    """Adds the commands to ``fedserver``."""
    for act in (pause, resume, evict, snapshot):
        group.add_command(act)


@command(epilog=example('fedserver pause runs/digits --reason "new sensors"'))
@ACT
@reason_option
@in_sentences
def pause(run: str, reason: str, **trust: Any) -> None:
    """Give no client a task of training until the run is resumed.

    RUN is the folder of the run, served or not; HOST a server that takes your
    operator's certificate. Clients wait, and say why. Updates that arrive are taken and
    counted, and versions are made of them.
    """
    done = _operate(run, "PAUSE", reason=reason, **trust)
    click.echo(f"paused at version {done.version}; fedserver resume {run} goes on")


@command(epilog=example("fedserver resume runs/digits"))
@ACT
@reason_option
@in_sentences
def resume(run: str, reason: str, **trust: Any) -> None:
    """Go on with a paused run.

    RUN is the folder of the run, HOST a server that takes your operator's certificate.
    Clients that wait are given tasks at once.
    """
    done = _operate(run, "RESUME", reason=reason, **trust)
    click.echo(f"goes on at version {done.version}")


@command(
    epilog=example(
        'fedserver evict runs/digits phone-7 --reason "broken camera"',
        "fedserver evict runs/digits phone-7 --readmit",
    )
)
@ACT
@click.argument("client")
@reason_option
@click.option("--readmit", is_flag=True, help="Let the evicted client come back.")
@in_sentences
def evict(run: str, client: str, reason: str, readmit: bool, **trust: Any) -> None:
    """Shut out the client with the name CLIENT, and its name.

    RUN is the folder of the run, HOST a server that takes your operator's certificate.
    What the client sent so far stays in the model; what it sends from now on is
    refused, under any name, and it hears the reason. fedserver free gives its name to
    another client; the evicted one then stays out for good.
    """
    act = "READMIT" if readmit else "EVICT"
    done = _operate(run, act, name=client, reason=reason, **trust)
    what = "may come back" if readmit else "is evicted"
    click.echo(f"{client!r} {what}, at version {done.version}")


@command(epilog=example("fedserver snapshot runs/digits"))
@ACT
@reason_option
@in_sentences
def snapshot(run: str, reason: str, **trust: Any) -> None:
    """Write the server's state now; a restart begins with it.

    RUN is the folder of the run, HOST a server that takes your operator's certificate.
    """
    done = _operate(run, "SNAPSHOT", reason=reason, **trust)
    click.echo(f"version {done.version} is in {done.snapshot}")


def _operate(run: str, act: str, **given: Any) -> Any:
    from fedwire.v1 import federation_pb2 as pb

    from fedserver.operator.remote import operate

    said = {key: given.pop(key) for key in ("name", "reason") if key in given}
    request = pb.OperateRequest(act=f"ACT_{act}", **said)
    return operate(run, request, **given)
