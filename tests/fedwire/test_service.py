"""The wire is for ever: its numbers are written down here once more."""

from pathlib import Path
from typing import Any

import grpc
import pytest
from fedwire import service
from fedwire.connect import MESSAGE_LIMIT, SERVICE
from fedwire.frames import CHUNK
from fedwire.v1 import federation_pb2 as pb

# The fields of each message, in the order of their numbers: 1, 2, 3 ...
FIELDS = {
    "ModelName": "epoch version",
    "EnrolRequest": "protocols key name role index count spec run_id code owner",
    "EnrolReply": (
        "protocol run_id epoch origin algorithm seed name share_labels heartbeat "
        "max_update_bytes gone warning"
    ),
    "PullRequest": (
        "key epoch held held_digest abandoned settled settled_verdict "
        "history_from partial partial_bytes held_proof settled_proof "
        "abandoned_proofs"
    ),
    "Chunk": "offset crc32 data",
    "PullFrame": "reply chunk",
    "Receipt": "seq digest verdict weight version proof",
    "PullReply": (
        "refused retry_after kind epoch version digest lengths patch from_byte "
        "receipt accepted task evaluate lease done proof left"
    ),
    "PushHeader": (
        "key epoch seq base settled settled_verdict samples steps update_norm "
        "memory_norm loss oldest counts has_counts payload crc32 size digest"
    ),
    "PushFrame": "header chunk",
    "PushReply": "answer weight version reason retry_after proof",
}


@pytest.mark.parametrize("name", FIELDS)
def test_no_field_has_changed_its_number(name: str) -> None:
    found = {field.name: field.number for field in getattr(pb, name).DESCRIPTOR.fields}
    expected = {field: n for n, field in enumerate(FIELDS[name].split(), 1)}
    assert expected.items() <= found.items()


def test_no_answer_has_changed_its_number() -> None:
    assert dict(pb.Answer.items()) == {
        "ANSWER_UNSPECIFIED": 0,
        "ANSWER_ACCEPTED": 1,
        "ANSWER_REJECTED_STALE": 2,
        "ANSWER_REJECTED_CLOSED": 3,
        "ANSWER_REJECTED_POLICY": 4,
        "ANSWER_REJECTED_MALFORMED": 5,
        "ANSWER_DISCARDED": 6,
        "ANSWER_RECEIVED": 16,
        "ANSWER_OTHER_EPOCH": 17,
        "ANSWER_OBSOLETE": 18,
        "ANSWER_UNKNOWN": 19,
        "ANSWER_RETRY": 20,
        "ANSWER_PROVE": 21,
    }


class Everything:
    """Has any method."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def test_stub_and_server_know_every_method_of_the_service() -> None:
    described = pb.DESCRIPTOR.services_by_name["Federation"]
    assert described.full_name == SERVICE
    names = {method.name for method in described.methods}
    with grpc.insecure_channel("127.0.0.1:1") as channel:
        stub = service.Stub(channel)
    assert {name.lower() for name in names} == set(vars(stub))
    for make in (service.handlers, service.raw_handlers):
        handlers = make(Everything())
        assert handlers.service_name() == SERVICE
        for name in names:
            details = type("Details", (), {"method": f"/{SERVICE}/{name}"})
            assert handlers.service(details) is not None


def test_a_chunk_fits_into_a_message() -> None:
    assert CHUNK + 100 < MESSAGE_LIMIT


def test_the_proto_file_names_the_version_that_is_spoken() -> None:
    (spoken,) = service.PROTOCOLS
    source = Path(pb.__file__).with_name("federation.proto")
    assert f"of which version {spoken} is spoken" in source.read_text()
