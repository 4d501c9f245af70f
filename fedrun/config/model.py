"""The config file as pydantic models, for server and simulator."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from fedcore.config import Config, Count
from fedcore.coordinator.settings import EvaluateConfig, StopConfig, TimeoutsConfig
from fedcore.hosts import is_loopback
from fedcore.recipes import AnyRecipe, Latecomer
from fedrun.config.simulate import SimulateConfig
from fedrun.config.values import AnyPath


class TLSConfig(Config):
    """Certificates, from files in PEM format."""

    certificate: AnyPath
    """The server's certificate chain."""
    key: AnyPath
    """The server's private key."""
    client_ca: AnyPath | None = None
    """The authority whose certificates clients must show; the name in one is theirs."""
    share_certificates: bool = False
    """Let several clients show one certificate, and choose their names themselves."""


class JournalConfig(Config):
    """Sets how much the journal keeps."""

    keep_bytes: int = Field(default=8 << 30, ge=0)
    """Bytes of payloads to keep; older ones are dropped once a snapshot covers them."""
    snapshot_records: Count = 2000
    """The most records between two snapshots; they bound the time of a restart."""


class ServerConfig(Config):
    """The server's address, the folder of its run, and its limits."""

    listen: str = "127.0.0.1:8443"
    """HOST:PORT; port 0 takes a free one."""
    journal: AnyPath = Path("runs/latecomer")
    """The folder of the run."""
    web: str | None = None
    """HOST:PORT of an HTTP port with ``/healthz``, ``/readyz`` and ``/metrics``. It
    needs the extra ``web``, and has no TLS. Without a value, there is none."""
    telemetry: str | None = None
    """Where traces of OpenTelemetry go: the URL of a collector, such as
    http://127.0.0.1:4318, or ``console``. It needs the extra ``telemetry``. Without a
    value, the variables ``OTEL_*`` decide, and without those there are none."""
    tls: TLSConfig | None = None
    """Needed to listen beyond this machine, unless plaintext is true."""
    plaintext: bool = False
    """Listen beyond this machine without TLS."""
    max_update_bytes: Count | None = None
    """The largest update; without a value, two dense models and 1 MiB."""
    max_connections: Count = 10_000
    """The most connections at a time, or fewer if the process may not open that many
    files; further ones are closed at once."""
    max_streams: Count = 64
    """The most calls at a time on one connection; further ones wait at the client."""
    max_clients: Count = 100_000
    """The most clients of a run, with those that left; further ones are refused."""
    max_enrolments: Count = 200
    """The most new clients a second; further ones wait."""
    max_uploads: Count = 64
    """The most large updates in memory at a time, from their first byte to their
    verdict. As many again wait for room; further ones are asked to come back."""
    max_upload_bytes: Count | None = None
    """Bytes of all updates in memory; by default 256 MiB, or 4 of the largest ones."""
    max_downloads: Count = 64
    """The most models and patches that are sent at a time; further ones wait."""
    min_rate: Count = 1_000
    """Bytes a second that an upload must reach, besides ``timeouts.stall``; a slower
    one is cut, and can be resumed."""

    @field_validator("listen", "web")
    @classmethod
    def _host_and_port(cls, listen: str | None) -> str | None:
        if listen is None:
            return None
        host, colon, port = listen.rpartition(":")
        if not colon or not host or not port.isdigit() or int(port) > 65535:
            raise ValueError("expected HOST:PORT, such as 127.0.0.1:8443")
        return listen

    @field_validator("telemetry")
    @classmethod
    def _collector(cls, telemetry: str | None) -> str | None:
        if telemetry in (None, "console"):
            return telemetry
        url = urlsplit(telemetry)
        if url.scheme not in ("http", "https") or not url.netloc:
            raise ValueError("expected http://HOST:PORT of a collector, or console")
        return telemetry

    @property
    def host(self) -> str:
        """The address without the port."""
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)

    @model_validator(mode="after")
    def _require_protection(self) -> "ServerConfig":
        if not (self.is_local or self.tls or self.plaintext):
            raise ValueError(
                f"listen {self.listen} is reachable from other machines: set tls, or "
                "plaintext: true"
            )
        return self


class MethodsConfig(Config):
    """A file of methods; a path alone is one as well."""

    file: AnyPath
    """The file, a module of Python."""
    digest: str = ""
    """The first 16 digits of its SHA-256. If it is given, no other file is imported."""


class FederationConfig(Config):
    """A federation: what is trained, where, how, and until when."""

    app: str | None = None
    """The user's workload, ``module:attribute``; the server itself never imports it."""
    methods: tuple[MethodsConfig, ...] = ()
    """Files of methods of your own, which the algorithm names by their kinds; the
    server imports them."""
    model: AnyPath = Path("model.safetensors")
    """The file of version 0; it is made from the app if it is missing."""
    seed: int = Field(default=0, ge=0, lt=2**64)
    """The seed of all randomness of the run."""
    server: ServerConfig = ServerConfig()
    journal: JournalConfig = JournalConfig()
    algorithm: AnyRecipe = Latecomer()
    evaluate: EvaluateConfig = EvaluateConfig()
    stop: StopConfig = StopConfig()
    timeouts: TimeoutsConfig = TimeoutsConfig()
    simulate: SimulateConfig = SimulateConfig()
    share_labels: bool = True
    """Clients report how often they used each label, if the algorithm asks."""

    @field_validator("methods", mode="before")
    @classmethod
    def _files(cls, given: Any) -> Any:
        listed = given if isinstance(given, list | tuple) else [given]
        return [
            {"file": each} if isinstance(each, str | Path) else each for each in listed
        ]

    @field_validator("timeouts")
    @classmethod
    def _check_timeouts(cls, timeouts: TimeoutsConfig) -> TimeoutsConfig:
        if timeouts.lost <= timeouts.heartbeat:
            raise ValueError(
                f"lost {timeouts.lost:g} must be above heartbeat "
                f"{timeouts.heartbeat:g}: clients would be lost between two heartbeats"
            )
        return timeouts

    @model_validator(mode="after")
    def _enough_clients(self) -> "FederationConfig":
        algorithm, clients = self.algorithm, self.simulate.clients
        if "clients" in self.simulate.model_fields_set:
            if algorithm.synchronous and algorithm.buffer > clients:
                raise ValueError(
                    f"algorithm.buffer is {algorithm.buffer}, and simulate.clients "
                    f"only {clients}: no round would have enough clients"
                )
            if algorithm.min_clients > clients:
                raise ValueError(
                    f"algorithm.min_clients is {algorithm.min_clients}, and "
                    f"simulate.clients only {clients}"
                )
        return self
