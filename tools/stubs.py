"""Generates the gRPC stubs, or checks that those in the repository are up to date.

It uses the oldest supported grpcio-tools, because generated code refuses runtimes that
are older than itself.
"""

import argparse
import filecmp
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent / "protos"
SOURCE = Path("fedwire/v1/federation.proto")
GENERATED = ("federation_pb2.py", "federation_pb2.pyi", "federation_pb2_grpc.py")


def generate(out: Path) -> None:
    """Writes the stubs below a folder."""
    from grpc_tools import protoc

    status = protoc.main(
        [
            "protoc",
            f"-I{ROOT}",
            f"--python_out={out}",
            f"--pyi_out={out}",
            f"--grpc_python_out={out}",
            str(SOURCE),
        ]
    )
    if status:
        sys.exit(status)


def stale() -> list[str]:
    """Returns the stubs that differ from the output for the .proto file."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        return [
            name
            for name in GENERATED
            if not filecmp.cmp(
                Path(folder) / SOURCE.parent / name,
                ROOT / SOURCE.parent / name,
                shallow=False,
            )
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args().check:
        generate(ROOT)
        return
    found = stale()
    if found:
        sys.exit(f"stale stubs, run make proto: {', '.join(found)}")
    print("the stubs are fresh")


if __name__ == "__main__":
    main()
