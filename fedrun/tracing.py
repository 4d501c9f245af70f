"""Traces of OpenTelemetry (extra ``telemetry``): off unless somebody asks for them.

They are asked for by the standard variables ``OTEL_*`` or, at a server, by
``server.telemetry``. Spans go out in the background, by OTLP over HTTP; what cannot be
delivered is dropped, and nothing waits for it but the end of the process, for a while.
"""

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from fedcore.errors import ConfigError
from fedcore.typing import Seconds
from fedrun.json_lines import concern
from fedrun.optional import require

EXTRA = "telemetry"
CONSOLE = "console"  # in place of a collector's URL
LAST: Seconds = 5.0  # to deliver spans when the process ends
_EXPORTER, _DISABLED = "OTEL_TRACES_EXPORTER", "OTEL_SDK_DISABLED"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_HTTP = "http/protobuf"
_PATH = "/v1/traces"  # of a collector
_NOTHING: AbstractContextManager[None] = contextlib.nullcontext()
Headers = tuple[tuple[str, str], ...]


class Tracer:
    """Makes no spans, which costs nothing."""

    def span(self, name: str, **facts: Any) -> AbstractContextManager[Any]:
        """Makes a span of the block, within the span around it."""
        return _NOTHING

    def serve(
        self, name: str, metadata: Iterable[Any] | None, **facts: Any
    ) -> AbstractContextManager[Any]:
        """Makes a span of the block, which serves a call with this metadata."""
        return _NOTHING

    def note(self, **facts: Any) -> None:
        """Adds facts to the span around the caller."""

    def here(self) -> Any:
        """Returns the span around the caller, to link to it later, or None."""
        return None

    def moment(self, name: str, links: Iterable[Any], **facts: Any) -> None:
        """Makes a span without a length, with links to others."""

    def begin(self, name: str, parent: Any = None, **facts: Any) -> Any:
        """Begins a span that is ended by hand; None if there are none."""
        return None

    def headers(self, span: Any) -> Headers:
        """Returns the metadata by which a server continues the trace of a span."""
        return ()

    def close(self) -> None:
        """Delivers what was not delivered yet."""


OFF = Tracer()


def is_asked_for() -> bool:
    """Returns whether the environment asks for traces."""
    if os.environ.get(_DISABLED, "").strip().lower() == "true":
        return False
    exporter = os.environ.get(_EXPORTER, "").strip()
    if exporter:
        return exporter != "none"
    return any(os.environ.get(name) for name in _ENDPOINTS)


def make_tracer(service: str, to: str | None = None) -> Tracer:
    """Returns what makes the spans of this process.

    Args:
        service: its name, unless ``OTEL_SERVICE_NAME`` says another one.
        to: the URL of a collector, or ``console``; None: what the environment says.

    Raises:
        ConfigError: a package is missing, or the environment asks for what is not here.
    """
    if to is None:
        if not is_asked_for():
            return OFF
        to = CONSOLE if os.environ.get(_EXPORTER) == CONSOLE else None
    return Spans(service, _exporter(to))


def _exporter(to: str | None) -> Any:
    """Returns what delivers spans.

    Raises:
        ConfigError: a package is missing, or what is asked for is not here.
    """
    export = require("opentelemetry.sdk.trace.export", EXTRA, "a trace")
    if to == CONSOLE:
        return export.ConsoleSpanExporter()
    kind = os.environ.get(_EXPORTER) or "otlp"
    if kind != "otlp" and to is None:
        raise ConfigError(f"{_EXPORTER}={kind}: expected otlp, console or none")
    protocol = next(filter(None, map(os.environ.get, _PROTOCOLS)), _HTTP)
    if protocol != _HTTP:
        raise ConfigError(f"{_PROTOCOLS[1]}={protocol}: expected {_HTTP}")
    module = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
    otlp = require(module, EXTRA, "a trace")
    if to is None:
        return otlp.OTLPSpanExporter()
    return otlp.OTLPSpanExporter(endpoint=to.rstrip("/").removesuffix(_PATH) + _PATH)


class Spans(Tracer):
    """Makes spans, and delivers them in the background."""

    def __init__(self, service: str, exporter: Any, *, at_once: bool = False) -> None:
        """``exporter`` is one of OpenTelemetry; ``at_once``: each span by itself."""
        sdk = require("opentelemetry.sdk.trace", EXTRA, "a trace")
        export = require("opentelemetry.sdk.trace.export", EXTRA, "a trace")
        resources = require("opentelemetry.sdk.resources", EXTRA, "a trace")
        self._api = require("opentelemetry.trace", EXTRA, "a trace")
        travelling = require(
            "opentelemetry.trace.propagation.tracecontext", EXTRA, "a trace"
        )
        self._travelling = travelling.TraceContextTextMapPropagator()
        name = os.environ.get("OTEL_SERVICE_NAME", service)
        resource = resources.Resource.create({"service.name": name})
        self._provider = sdk.TracerProvider(resource=resource, shutdown_on_exit=False)
        kind = export.SimpleSpanProcessor if at_once else export.BatchSpanProcessor
        self._provider.add_span_processor(kind(exporter))
        self._tracer = self._provider.get_tracer("latecomer")

    def span(self, name: str, **facts: Any) -> AbstractContextManager[Any]:
        """Makes a span of the block, within the span around it."""
        made: AbstractContextManager[Any] = self._tracer.start_as_current_span(
            name, attributes=_name(facts)
        )
        return made

    @contextlib.contextmanager
    def serve(
        self, name: str, metadata: Iterable[Any] | None, **facts: Any
    ) -> Iterator[None]:
        """Makes a span of the block, in the trace that the caller began."""
        carrier = {str(key): str(value) for key, value in metadata or ()}
        with self._tracer.start_as_current_span(
            name,
            context=self._travelling.extract(carrier),
            kind=self._api.SpanKind.SERVER,
            attributes=_name(facts),
        ) as span:
            concern(trace_id=_trace_id(span))
            yield

    def note(self, **facts: Any) -> None:
        """Adds facts to the span around the caller."""
        self._api.get_current_span().set_attributes(_name(facts))

    def here(self) -> Any:
        """Returns the context of the span around the caller."""
        found = self._api.get_current_span().get_span_context()
        return found if found.is_valid else None

    def moment(self, name: str, links: Iterable[Any], **facts: Any) -> None:
        """Makes a span without a length, with links to others."""
        made = [self._api.Link(context) for context in links]
        self._tracer.start_span(name, links=made, attributes=_name(facts)).end()

    def begin(self, name: str, parent: Any = None, **facts: Any) -> Any:
        """Begins a span that is ended by hand."""
        context = None if parent is None else self._api.set_span_in_context(parent)
        kind = self._api.SpanKind.CLIENT
        return self._tracer.start_span(
            name, context=context, kind=kind, attributes=_name(facts)
        )

    def headers(self, span: Any) -> Headers:
        """Returns the metadata by which a server continues the trace of a span."""
        carrier: dict[str, str] = {}
        context = self._api.set_span_in_context(span)
        self._travelling.inject(carrier, context)
        return tuple(carrier.items())

    def close(self) -> None:
        """Delivers what was not delivered yet, as long as that does not take long."""
        last = threading.Thread(target=self._provider.shutdown, daemon=True)
        last.start()
        last.join(LAST)


def trace_id(span: Any) -> str | None:
    """Returns the id of a span's trace; None if there is no span."""
    return None if span is None else _trace_id(span)


def _trace_id(span: Any) -> str:
    return f"{span.get_span_context().trace_id:032x}"


def _name(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns attributes under names of our own; None is unknown."""
    return {f"fed.{key}": value for key, value in facts.items() if value is not None}
