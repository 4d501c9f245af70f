"""``latecomer.predict``: the throughput of many clients from Python."""

from collections.abc import Sequence
from pathlib import Path

from fedcore.errors import ConfigError
from fedrun.arguments import expect_paths, expect_type
from fedstudies.predict.command import (
    PredictOptions,
    compute_forecast,
    write_forecast,
)
from fedstudies.predict.forecast import Forecast


def predict(
    trace: str | Path,
    workers: Sequence[int] = (2, 4, 8),
    *,
    client: str | None = None,
    buffer: int | None = None,
    synchronous: bool = False,
    server_up_mbit: float | None = None,
    server_down_mbit: float | None = None,
    server_ms: float | None = None,
    seed: int = 0,
    out: str | Path | None = None,
) -> Forecast:
    """Predicts the throughput of many clients, as ``fedsim predict`` does.

    Args:
        trace: the file that ``fedclient join --phases`` wrote, or the folder of a run.
        workers: the numbers of clients.
        client: whose tasks of a run to take.
        buffer: K, the updates of a version, or the cohort of a synchronous federation.
            Without it, 10, or all clients.
        synchronous: whether clients wait for each other.
        server_up_mbit: what all clients together can send to the server. Without it,
            the rate of the trace.
        server_down_mbit: what the server can send to all clients together, likewise.
        server_ms: how long the server works on an update. Without it, as the trace
            says.
        seed: of the draws.
        out: the folder for a page and the numbers. Without it, none are written.

    Returns:
        The predictions: ``rows``, one for each number of clients; ``verdict`` and
        ``doubts`` are in words, ``as_json()`` is plain data.

    Raises:
        ConfigError: an argument is wrong, or the trace cannot support a prediction.
    """
    if not isinstance(trace, str | Path):
        raise ConfigError(f"trace: expected a path, got {type(trace).__name__}")
    numbers = [*workers] if isinstance(workers, Sequence) else None
    if numbers is None or any(type(w) is not int for w in numbers):
        raise ConfigError(
            f"workers: expected a list of numbers of clients, got {workers!r}"
        )
    expect_type("a whole number", int, buffer=buffer, seed=seed)
    if seed is None or seed < 0:
        raise ConfigError(f"seed: expected 0 or more, got {seed!r}")
    expect_type("True or False", bool, synchronous=synchronous)
    expect_type("the name of a client", str, client=client)
    expect_type(
        "a number",
        int,
        float,
        server_up_mbit=server_up_mbit,
        server_down_mbit=server_down_mbit,
        server_ms=server_ms,
    )
    expect_paths(out=out)
    folder = None if out is None else Path(out)
    forecast = compute_forecast(
        PredictOptions(
            trace=Path(trace),
            client=client,
            workers=numbers,
            buffer=buffer,
            synchronous=synchronous,
            up_mbit=server_up_mbit,
            down_mbit=server_down_mbit,
            server_ms=server_ms,
            seed=seed,
            out=folder,
        )
    )
    write_forecast(forecast, folder)
    return forecast
