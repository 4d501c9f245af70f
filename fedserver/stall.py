"""Says why a run does not go on, in a sentence for its operator."""

from fedcore.typing import Seconds
from fedrun.units import in_seconds
from fedserver.progress import Progress

# A run is stalled if no update was accepted for this long, and for this many times the
# usual time between two of them.
LEAST: Seconds = 60.0
TIMES = 10


def stall(progress: Progress, disk: str | None = None) -> str | None:
    """Returns why the run does not go on; None if it does, is paused or has ended.

    Args:
        progress: of the run.
        disk: what is wrong with the server's disk; None if nothing is.
    """
    run = progress.run.coordinator
    if run.state.closed or run.state.is_paused:
        return None
    if progress.quiet < max(LEAST, TIMES * progress.usual):
        return None
    return f"no update for {in_seconds(progress.quiet)}: {_reason(progress, disk)}"


def _reason(progress: Progress, disk: str | None) -> str:
    run = progress.run.coordinator
    leases = run.rounds.leases
    here, trainers = len(leases.present), run.state.roster.trainers
    failed = sum(client.doing == "failed" for client in list(progress.clients.values()))
    counts = (
        (len(leases.busy), f"of {trainers:,} trains", f"of {trainers:,} train"),
        (len(leases.waiting), "waits for a task", "wait for a task"),
        (trainers - here, "is away", "are away"),
        (failed, "failed last", "failed last"),
    )
    parts = [
        ", ".join(f"{n:,} {one if n == 1 else more}" for n, one, more in counts if n)
    ]
    if not trainers:
        parts = ["no client has joined"]
    least = progress.run.config.algorithm.min_clients
    if here < least > 1:
        parts.append(f"training begins with {least:,} clients")
    if disk:
        parts.append("the disk is full or fails")
    buffer = progress.run.config.algorithm.buffer
    parts.append(f"the buffer has {run.state.count:,} of {buffer:,}")
    return "; ".join(part for part in parts if part)
