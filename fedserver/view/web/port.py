"""One HTTP port beside gRPC, on the same event loop: health, readiness, metrics.

It opens after the journal was recovered and before the first call is answered, and
closes with the server, after the drain.
"""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

from fedcore.errors import UnavailableError
from fedcore.typing import Seconds
from fedrun.optional import require
from fedserver.view.progress import Progress
from fedserver.view.web.metrics import METRICS, Histogram, Labels, Metric, Samples

EXTRA, PURPOSE = "web", "server.web"
_PACKAGES = ("uvicorn", "starlette.applications", "prometheus_client")
LAST: Seconds = 1.0  # seconds for answers that are in progress when the server ends
BACKLOG = 64
CONNECTIONS = 64  # at a time; the server's other descriptors are the federation's
LONGEST: Seconds = 30.0  # seconds of a connection's life; a scraper connects again


def require_packages() -> None:
    """Checks that the packages of the extra are there.

    Raises:
        ConfigError: one of them is not; the message names the extra.
    """
    for package in _PACKAGES:
        require(package, EXTRA, PURPOSE)


class WebPort:
    """The HTTP port of one server."""

    def __init__(self, listen: str, progress: Progress) -> None:
        """Takes the port; answers nothing before :meth:`start`.

        Args:
            listen: HOST:PORT; port 0 takes a free one.
            progress: the progress of the run.

        Raises:
            ConfigError: a package is missing.
            UnavailableError: the port is taken.
        """
        require_packages()
        self._progress = progress
        self._socket = _bind(listen)
        self._scraping = asyncio.Lock()
        host, port = self._socket.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        """The address HOST:PORT on which it listens."""

    def start(self) -> None:
        """Answers from now on."""
        uvicorn = require("uvicorn", EXTRA, PURPOSE)
        config = uvicorn.Config(
            self._app(),
            log_config=None,
            access_log=False,
            lifespan="off",
            http=_make_protocol(),
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=LAST,
        )
        self._server = uvicorn.Server(config)
        # The signals of the process belong to the federation's server.
        self._server.capture_signals = contextlib.nullcontext
        serving = self._server.serve(sockets=[self._socket])
        self._task = asyncio.create_task(serving)

    async def close(self) -> None:
        """Answers nothing more, and releases the port."""
        self._server.should_exit = True
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._task, 2 * LAST)
        self._socket.close()

    # ------------------------------------------------------------------ answers

    def _app(self) -> Any:
        applications = require("starlette.applications", EXTRA, PURPOSE)
        routing = require("starlette.routing", EXTRA, PURPOSE)
        answers = require("starlette.responses", EXTRA, PURPOSE)
        exposition = require("prometheus_client.exposition", EXTRA, PURPOSE)
        registry = _registry(self._progress)

        async def healthz(_: Any) -> Any:
            return answers.PlainTextResponse("ok\n")

        async def readyz(_: Any) -> Any:
            sentence = self._progress.not_ready()
            status = 503 if sentence else 200
            return answers.PlainTextResponse(f"{sentence or 'ready'}\n", status)

        async def metrics(request: Any) -> Any:
            wanted = request.headers.get("accept", "")
            write, kind = exposition.choose_encoder(wanted)
            async with self._scraping:  # one at a time, for all callers
                body = await asyncio.to_thread(write, registry)
            return answers.Response(body, headers={"Content-Type": kind})

        paths = {"/healthz": healthz, "/readyz": readyz, "/metrics": metrics}
        routes = [routing.Route(path, answer) for path, answer in paths.items()]
        return applications.Starlette(routes=routes)


def _make_protocol() -> Any:
    """Returns uvicorn's protocol with a limit on connections and on their life.

    Without it, connections that say nothing would use up the process's descriptors.
    """
    h11 = require("uvicorn.protocols.http.h11_impl", EXTRA, PURPOSE)
    base: Any = h11.H11Protocol
    here: dict[Any, None] = {}  # the oldest first

    class Bounded(base):  # type: ignore[misc]
        """A connection; if there are too many, the oldest one is closed."""

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            here[self] = None
            self._ending = self.loop.call_later(LONGEST, self._end)
            if len(here) > CONNECTIONS:
                oldest = next(iter(here))
                del here[oldest]
                oldest.transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            here.pop(self, None)
            self._ending.cancel()
            super().connection_lost(exc)

        def _end(self) -> None:
            """Ends the connection; an answer in progress gets a moment more."""
            if self.cycle is None or self.cycle.response_complete:
                self.transport.abort()
            else:
                self.shutdown()
                self._ending = self.loop.call_later(LAST, self.transport.abort)

    return Bounded


def _registry(progress: Progress) -> Any:
    """Returns a registry of Prometheus with our metrics, and those of the process."""
    prometheus = require("prometheus_client", EXTRA, PURPOSE)
    core = require("prometheus_client.core", EXTRA, PURPOSE)
    registry = prometheus.CollectorRegistry(auto_describe=False)

    class Collector:
        """Yields the metrics whenever Prometheus asks."""

        def collect(self) -> Iterator[Any]:
            for metric in METRICS:
                yield family(metric, metric.read(progress))

    def family(metric: Metric, values: Samples | Histogram) -> Any:
        if isinstance(values, Histogram):
            made = core.HistogramMetricFamily(metric.name, metric.help)
            made.add_metric([], buckets=values.buckets, sum_value=values.total)
            return made
        kinds = {
            "counter": core.CounterMetricFamily,
            "gauge": core.GaugeMetricFamily,
        }
        made = kinds[metric.kind](metric.name, metric.help, labels=metric.labels)
        labels: Labels
        for labels, value in values.items():
            made.add_metric(labels, value)
        return made

    registry.register(Collector())
    prometheus.ProcessCollector(registry=registry)
    return registry


def _bind(listen: str) -> socket.socket:
    """Returns a socket that listens.

    Raises:
        UnavailableError: the port is taken, or the address is not this machine's.
    """
    host, _, port = listen.rpartition(":")
    try:
        found = socket.getaddrinfo(
            host.strip("[]"),
            int(port),
            type=socket.SOCK_STREAM,
            flags=socket.AI_PASSIVE,
        )
        family, kind, protocol, _, place = found[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(place)
            bound.listen(BACKLOG)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        raise UnavailableError(
            f"cannot listen on {listen}: the port is taken or the address is not this "
            "machine's (server.web)"
        ) from error
    bound.setblocking(False)
    return bound
