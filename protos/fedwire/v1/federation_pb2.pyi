from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_TRAINER: _ClassVar[Role]
    ROLE_EVALUATOR: _ClassVar[Role]

class Answer(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ANSWER_UNSPECIFIED: _ClassVar[Answer]
    ANSWER_ACCEPTED: _ClassVar[Answer]
    ANSWER_REJECTED_STALE: _ClassVar[Answer]
    ANSWER_REJECTED_CLOSED: _ClassVar[Answer]
    ANSWER_REJECTED_POLICY: _ClassVar[Answer]
    ANSWER_REJECTED_MALFORMED: _ClassVar[Answer]
    ANSWER_DISCARDED: _ClassVar[Answer]
    ANSWER_RECEIVED: _ClassVar[Answer]
    ANSWER_OTHER_EPOCH: _ClassVar[Answer]
    ANSWER_OBSOLETE: _ClassVar[Answer]
    ANSWER_UNKNOWN: _ClassVar[Answer]
    ANSWER_RETRY: _ClassVar[Answer]
    ANSWER_PROVE: _ClassVar[Answer]

class PatchKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PATCH_KIND_NONE: _ClassVar[PatchKind]
    PATCH_KIND_REPLAY: _ClassVar[PatchKind]
    PATCH_KIND_OVERWRITE: _ClassVar[PatchKind]
    PATCH_KIND_FULL: _ClassVar[PatchKind]

class TaskKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_KIND_NONE: _ClassVar[TaskKind]
    TASK_KIND_TRAIN: _ClassVar[TaskKind]
    TASK_KIND_EVALUATE: _ClassVar[TaskKind]

class Act(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACT_UNSPECIFIED: _ClassVar[Act]
    ACT_PAUSE: _ClassVar[Act]
    ACT_RESUME: _ClassVar[Act]
    ACT_EVICT: _ClassVar[Act]
    ACT_READMIT: _ClassVar[Act]
    ACT_SNAPSHOT: _ClassVar[Act]
ROLE_TRAINER: Role
ROLE_EVALUATOR: Role
ANSWER_UNSPECIFIED: Answer
ANSWER_ACCEPTED: Answer
ANSWER_REJECTED_STALE: Answer
ANSWER_REJECTED_CLOSED: Answer
ANSWER_REJECTED_POLICY: Answer
ANSWER_REJECTED_MALFORMED: Answer
ANSWER_DISCARDED: Answer
ANSWER_RECEIVED: Answer
ANSWER_OTHER_EPOCH: Answer
ANSWER_OBSOLETE: Answer
ANSWER_UNKNOWN: Answer
ANSWER_RETRY: Answer
ANSWER_PROVE: Answer
PATCH_KIND_NONE: PatchKind
PATCH_KIND_REPLAY: PatchKind
PATCH_KIND_OVERWRITE: PatchKind
PATCH_KIND_FULL: PatchKind
TASK_KIND_NONE: TaskKind
TASK_KIND_TRAIN: TaskKind
TASK_KIND_EVALUATE: TaskKind
ACT_UNSPECIFIED: Act
ACT_PAUSE: Act
ACT_RESUME: Act
ACT_EVICT: Act
ACT_READMIT: Act
ACT_SNAPSHOT: Act

class ModelName(_message.Message):
    __slots__ = ("epoch", "version")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    version: int
    def __init__(self, epoch: _Optional[int] = ..., version: _Optional[int] = ...) -> None: ...

class Device(_message.Message):
    __slots__ = ("model", "cores", "mhz", "memory", "free", "celsius", "battery", "core_watts")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    CORES_FIELD_NUMBER: _ClassVar[int]
    MHZ_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    CELSIUS_FIELD_NUMBER: _ClassVar[int]
    BATTERY_FIELD_NUMBER: _ClassVar[int]
    CORE_WATTS_FIELD_NUMBER: _ClassVar[int]
    model: str
    cores: int
    mhz: float
    memory: int
    free: int
    celsius: float
    battery: float
    core_watts: float
    def __init__(self, model: _Optional[str] = ..., cores: _Optional[int] = ..., mhz: _Optional[float] = ..., memory: _Optional[int] = ..., free: _Optional[int] = ..., celsius: _Optional[float] = ..., battery: _Optional[float] = ..., core_watts: _Optional[float] = ...) -> None: ...

class Measured(_message.Message):
    __slots__ = ("samples", "seconds", "joules", "device")
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    JOULES_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    samples: int
    seconds: float
    joules: float
    device: Device
    def __init__(self, samples: _Optional[int] = ..., seconds: _Optional[float] = ..., joules: _Optional[float] = ..., device: _Optional[_Union[Device, _Mapping]] = ...) -> None: ...

class EnrolRequest(_message.Message):
    __slots__ = ("protocols", "key", "name", "role", "index", "count", "spec", "run_id", "code", "owner")
    PROTOCOLS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    protocols: _containers.RepeatedScalarFieldContainer[int]
    key: bytes
    name: str
    role: Role
    index: int
    count: int
    spec: str
    run_id: str
    code: str
    owner: bytes
    def __init__(self, protocols: _Optional[_Iterable[int]] = ..., key: _Optional[bytes] = ..., name: _Optional[str] = ..., role: _Optional[_Union[Role, str]] = ..., index: _Optional[int] = ..., count: _Optional[int] = ..., spec: _Optional[str] = ..., run_id: _Optional[str] = ..., code: _Optional[str] = ..., owner: _Optional[bytes] = ...) -> None: ...

class EnrolReply(_message.Message):
    __slots__ = ("protocol", "run_id", "epoch", "origin", "algorithm", "seed", "name", "share_labels", "heartbeat", "max_update_bytes", "gone", "warning")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHARE_LABELS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    MAX_UPDATE_BYTES_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    WARNING_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    run_id: str
    epoch: int
    origin: bytes
    algorithm: str
    seed: int
    name: str
    share_labels: bool
    heartbeat: float
    max_update_bytes: int
    gone: bool
    warning: str
    def __init__(self, protocol: _Optional[int] = ..., run_id: _Optional[str] = ..., epoch: _Optional[int] = ..., origin: _Optional[bytes] = ..., algorithm: _Optional[str] = ..., seed: _Optional[int] = ..., name: _Optional[str] = ..., share_labels: bool = ..., heartbeat: _Optional[float] = ..., max_update_bytes: _Optional[int] = ..., gone: bool = ..., warning: _Optional[str] = ...) -> None: ...

class CheckRequest(_message.Message):
    __slots__ = ("enrol", "package")
    ENROL_FIELD_NUMBER: _ClassVar[int]
    PACKAGE_FIELD_NUMBER: _ClassVar[int]
    enrol: EnrolRequest
    package: str
    def __init__(self, enrol: _Optional[_Union[EnrolRequest, _Mapping]] = ..., package: _Optional[str] = ...) -> None: ...

class CheckReply(_message.Message):
    __slots__ = ("package", "protocols", "version", "objections", "enrol")
    PACKAGE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOLS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    OBJECTIONS_FIELD_NUMBER: _ClassVar[int]
    ENROL_FIELD_NUMBER: _ClassVar[int]
    package: str
    protocols: _containers.RepeatedScalarFieldContainer[int]
    version: int
    objections: _containers.RepeatedCompositeFieldContainer[Objection]
    enrol: EnrolReply
    def __init__(self, package: _Optional[str] = ..., protocols: _Optional[_Iterable[int]] = ..., version: _Optional[int] = ..., objections: _Optional[_Iterable[_Union[Objection, _Mapping]]] = ..., enrol: _Optional[_Union[EnrolReply, _Mapping]] = ...) -> None: ...

class Objection(_message.Message):
    __slots__ = ("about", "text")
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    about: str
    text: str
    def __init__(self, about: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class PullRequest(_message.Message):
    __slots__ = ("key", "epoch", "held", "held_digest", "abandoned", "settled", "settled_verdict", "history_from", "partial", "partial_bytes", "held_proof", "settled_proof", "abandoned_proofs", "device", "plan")
    KEY_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    HELD_DIGEST_FIELD_NUMBER: _ClassVar[int]
    ABANDONED_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    SETTLED_VERDICT_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FROM_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    HELD_PROOF_FIELD_NUMBER: _ClassVar[int]
    SETTLED_PROOF_FIELD_NUMBER: _ClassVar[int]
    ABANDONED_PROOFS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    epoch: int
    held: int
    held_digest: bytes
    abandoned: _containers.RepeatedScalarFieldContainer[int]
    settled: int
    settled_verdict: Answer
    history_from: int
    partial: str
    partial_bytes: int
    held_proof: int
    settled_proof: int
    abandoned_proofs: _containers.RepeatedScalarFieldContainer[int]
    device: Device
    plan: Plan
    def __init__(self, key: _Optional[bytes] = ..., epoch: _Optional[int] = ..., held: _Optional[int] = ..., held_digest: _Optional[bytes] = ..., abandoned: _Optional[_Iterable[int]] = ..., settled: _Optional[int] = ..., settled_verdict: _Optional[_Union[Answer, str]] = ..., history_from: _Optional[int] = ..., partial: _Optional[str] = ..., partial_bytes: _Optional[int] = ..., held_proof: _Optional[int] = ..., settled_proof: _Optional[int] = ..., abandoned_proofs: _Optional[_Iterable[int]] = ..., device: _Optional[_Union[Device, _Mapping]] = ..., plan: _Optional[_Union[Plan, _Mapping]] = ...) -> None: ...

class Plan(_message.Message):
    __slots__ = ("samples", "counts", "has_counts")
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    HAS_COUNTS_FIELD_NUMBER: _ClassVar[int]
    samples: int
    counts: _containers.RepeatedScalarFieldContainer[int]
    has_counts: bool
    def __init__(self, samples: _Optional[int] = ..., counts: _Optional[_Iterable[int]] = ..., has_counts: bool = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("offset", "crc32", "data")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    CRC32_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    offset: int
    crc32: int
    data: bytes
    def __init__(self, offset: _Optional[int] = ..., crc32: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class PullFrame(_message.Message):
    __slots__ = ("reply", "chunk")
    REPLY_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    reply: PullReply
    chunk: Chunk
    def __init__(self, reply: _Optional[_Union[PullReply, _Mapping]] = ..., chunk: _Optional[_Union[Chunk, _Mapping]] = ...) -> None: ...

class Receipt(_message.Message):
    __slots__ = ("seq", "digest", "verdict", "weight", "version", "proof")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    seq: int
    digest: bytes
    verdict: Answer
    weight: float
    version: int
    proof: int
    def __init__(self, seq: _Optional[int] = ..., digest: _Optional[bytes] = ..., verdict: _Optional[_Union[Answer, str]] = ..., weight: _Optional[float] = ..., version: _Optional[int] = ..., proof: _Optional[int] = ...) -> None: ...

class PullReply(_message.Message):
    __slots__ = ("refused", "retry_after", "kind", "epoch", "version", "digest", "lengths", "patch", "from_byte", "receipt", "accepted", "task", "evaluate", "lease", "done", "proof", "left", "work", "density", "samples", "reason", "task_proof")
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    LENGTHS_FIELD_NUMBER: _ClassVar[int]
    PATCH_FIELD_NUMBER: _ClassVar[int]
    FROM_BYTE_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    EVALUATE_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    WORK_FIELD_NUMBER: _ClassVar[int]
    DENSITY_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TASK_PROOF_FIELD_NUMBER: _ClassVar[int]
    refused: Answer
    retry_after: float
    kind: PatchKind
    epoch: int
    version: int
    digest: bytes
    lengths: _containers.RepeatedScalarFieldContainer[int]
    patch: bytes
    from_byte: int
    receipt: Receipt
    accepted: _containers.RepeatedScalarFieldContainer[int]
    task: TaskKind
    evaluate: bool
    lease: float
    done: bool
    proof: int
    left: int
    work: float
    density: float
    samples: int
    reason: str
    task_proof: int
    def __init__(self, refused: _Optional[_Union[Answer, str]] = ..., retry_after: _Optional[float] = ..., kind: _Optional[_Union[PatchKind, str]] = ..., epoch: _Optional[int] = ..., version: _Optional[int] = ..., digest: _Optional[bytes] = ..., lengths: _Optional[_Iterable[int]] = ..., patch: _Optional[bytes] = ..., from_byte: _Optional[int] = ..., receipt: _Optional[_Union[Receipt, _Mapping]] = ..., accepted: _Optional[_Iterable[int]] = ..., task: _Optional[_Union[TaskKind, str]] = ..., evaluate: bool = ..., lease: _Optional[float] = ..., done: bool = ..., proof: _Optional[int] = ..., left: _Optional[int] = ..., work: _Optional[float] = ..., density: _Optional[float] = ..., samples: _Optional[int] = ..., reason: _Optional[str] = ..., task_proof: _Optional[int] = ...) -> None: ...

class PushHeader(_message.Message):
    __slots__ = ("key", "epoch", "seq", "base", "settled", "settled_verdict", "samples", "steps", "update_norm", "memory_norm", "loss", "oldest", "counts", "has_counts", "payload", "crc32", "size", "digest", "measured", "metrics", "task")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    KEY_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    SETTLED_VERDICT_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    UPDATE_NORM_FIELD_NUMBER: _ClassVar[int]
    MEMORY_NORM_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    OLDEST_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    HAS_COUNTS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CRC32_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    MEASURED_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    epoch: int
    seq: int
    base: int
    settled: int
    settled_verdict: Answer
    samples: int
    steps: int
    update_norm: float
    memory_norm: float
    loss: float
    oldest: ModelName
    counts: _containers.RepeatedScalarFieldContainer[int]
    has_counts: bool
    payload: bytes
    crc32: int
    size: int
    digest: bytes
    measured: Measured
    metrics: _containers.ScalarMap[str, float]
    task: int
    def __init__(self, key: _Optional[bytes] = ..., epoch: _Optional[int] = ..., seq: _Optional[int] = ..., base: _Optional[int] = ..., settled: _Optional[int] = ..., settled_verdict: _Optional[_Union[Answer, str]] = ..., samples: _Optional[int] = ..., steps: _Optional[int] = ..., update_norm: _Optional[float] = ..., memory_norm: _Optional[float] = ..., loss: _Optional[float] = ..., oldest: _Optional[_Union[ModelName, _Mapping]] = ..., counts: _Optional[_Iterable[int]] = ..., has_counts: bool = ..., payload: _Optional[bytes] = ..., crc32: _Optional[int] = ..., size: _Optional[int] = ..., digest: _Optional[bytes] = ..., measured: _Optional[_Union[Measured, _Mapping]] = ..., metrics: _Optional[_Mapping[str, float]] = ..., task: _Optional[int] = ...) -> None: ...

class PushFrame(_message.Message):
    __slots__ = ("header", "chunk")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    header: PushHeader
    chunk: Chunk
    def __init__(self, header: _Optional[_Union[PushHeader, _Mapping]] = ..., chunk: _Optional[_Union[Chunk, _Mapping]] = ...) -> None: ...

class PushReply(_message.Message):
    __slots__ = ("answer", "weight", "version", "reason", "retry_after", "proof")
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    answer: Answer
    weight: float
    version: int
    reason: str
    retry_after: float
    proof: int
    def __init__(self, answer: _Optional[_Union[Answer, str]] = ..., weight: _Optional[float] = ..., version: _Optional[int] = ..., reason: _Optional[str] = ..., retry_after: _Optional[float] = ..., proof: _Optional[int] = ...) -> None: ...

class TrialReply(_message.Message):
    __slots__ = ("answer", "reason", "received")
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    answer: Answer
    reason: str
    received: int
    def __init__(self, answer: _Optional[_Union[Answer, str]] = ..., reason: _Optional[str] = ..., received: _Optional[int] = ...) -> None: ...

class ResumeRequest(_message.Message):
    __slots__ = ("key", "seq", "digest")
    KEY_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    seq: int
    digest: bytes
    def __init__(self, key: _Optional[bytes] = ..., seq: _Optional[int] = ..., digest: _Optional[bytes] = ...) -> None: ...

class ResumeReply(_message.Message):
    __slots__ = ("received",)
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    received: int
    def __init__(self, received: _Optional[int] = ...) -> None: ...

class Beat(_message.Message):
    __slots__ = ("key", "session", "waiting")
    KEY_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    session: int
    waiting: str
    def __init__(self, key: _Optional[bytes] = ..., session: _Optional[int] = ..., waiting: _Optional[str] = ...) -> None: ...

class Notice(_message.Message):
    __slots__ = ("kind", "text")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[Notice.Kind]
        KIND_SUPERSEDED: _ClassVar[Notice.Kind]
        KIND_DRAINING: _ClassVar[Notice.Kind]
        KIND_ENDED: _ClassVar[Notice.Kind]
    KIND_UNSPECIFIED: Notice.Kind
    KIND_SUPERSEDED: Notice.Kind
    KIND_DRAINING: Notice.Kind
    KIND_ENDED: Notice.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    kind: Notice.Kind
    text: str
    def __init__(self, kind: _Optional[_Union[Notice.Kind, str]] = ..., text: _Optional[str] = ...) -> None: ...

class ReportRequest(_message.Message):
    __slots__ = ("key", "model", "values", "samples", "error", "skipped", "text")
    class ValuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    KEY_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    model: ModelName
    values: _containers.ScalarMap[str, float]
    samples: int
    error: str
    skipped: int
    text: str
    def __init__(self, key: _Optional[bytes] = ..., model: _Optional[_Union[ModelName, _Mapping]] = ..., values: _Optional[_Mapping[str, float]] = ..., samples: _Optional[int] = ..., error: _Optional[str] = ..., skipped: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class ReportReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LeaveRequest(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    def __init__(self, key: _Optional[bytes] = ...) -> None: ...

class LeaveReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: str
    def __init__(self, json: _Optional[str] = ...) -> None: ...

class FreeRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class FreeReply(_message.Message):
    __slots__ = ("was_taken",)
    WAS_TAKEN_FIELD_NUMBER: _ClassVar[int]
    was_taken: bool
    def __init__(self, was_taken: bool = ...) -> None: ...

class OperateRequest(_message.Message):
    __slots__ = ("act", "name", "by", "reason")
    ACT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    act: Act
    name: str
    by: str
    reason: str
    def __init__(self, act: _Optional[_Union[Act, str]] = ..., name: _Optional[str] = ..., by: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class OperateReply(_message.Message):
    __slots__ = ("objection", "version", "snapshot")
    OBJECTION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    objection: str
    version: int
    snapshot: str
    def __init__(self, objection: _Optional[str] = ..., version: _Optional[int] = ..., snapshot: _Optional[str] = ...) -> None: ...
