from pathlib import Path

import pytest

from tools import stubs


def test_the_stubs_are_what_the_proto_file_gives() -> None:
    assert stubs.stale() == []


def test_a_stub_that_was_changed_by_hand_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generated = tmp_path / stubs.SOURCE.parent
    generated.mkdir(parents=True)
    for name in (*stubs.GENERATED, stubs.SOURCE.name):
        source = stubs.ROOT / stubs.SOURCE.parent / name
        (generated / name).write_bytes(source.read_bytes())
    changed = generated / "federation_pb2.pyi"
    changed.write_text(changed.read_text() + "# by hand\n")
    monkeypatch.setattr(stubs, "ROOT", tmp_path)
    assert stubs.stale() == ["federation_pb2.pyi"]
