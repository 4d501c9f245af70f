"""Compiles the kernels where there is a compiler; without one the package is whole.

Hatchling runs this for wheels and for editable installs. ``LATECOMER_KERNELS=numpy``
leaves the compiler alone, ``LATECOMER_KERNELS=compiled`` lets a build fail without it.
"""

import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("fedcore", "kernels")
SETTINGS = {  # sums are to be rounded as they are written, on every processor
    "unix": "-std=c99 -O3 -ffp-contract=off -fno-math-errno -fvisibility=hidden -g0",
    "msvc": "/O2 /fp:precise",
}


class CustomBuildHook(BuildHookInterface[Any]):
    """One extension module, for every Python from 3.11 on."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the module to the wheel, or puts it beside the sources."""
        choice = os.environ.get("LATECOMER_KERNELS", "")
        if choice == "numpy" or sys.implementation.name != "cpython":
            return
        root = Path(self.root)
        try:
            module = compiled(root, Path(self.directory) / "kernels")
        except Exception as failed:  # setuptools raises many kinds
            if choice == "compiled":
                raise
            self.app.display_warning(
                f"the kernels were not compiled, NumPy takes their place: {failed}"
            )
            return
        if version == "editable":
            fresh = root / FOLDER / f"{module.name}.new"
            shutil.copy(module, fresh)
            fresh.replace(fresh.with_suffix(""))  # a program may be running on the old
            return
        build_data["force_include"][str(module)] = str(FOLDER / module.name)
        build_data["pure_python"] = False
        build_data["tag"] = tag()


def compiled(root: Path, into: Path) -> Path:
    """The module's file."""
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    class Build(build_ext):
        def build_extension(self, ext: Extension) -> None:
            kind = self.compiler.compiler_type
            ext.extra_compile_args = SETTINGS.get(kind, "").split()
            super().build_extension(ext)

    sources = sorted((root / FOLDER / "c").glob("*.c"))
    extension = Extension(
        "fedcore.kernels._compiled",
        [os.path.relpath(source, root) for source in sources],
        depends=[str(header) for header in (root / FOLDER / "c").glob("*.h")],
        py_limited_api=True,
    )
    command = Build(Distribution({"name": "latecomer", "ext_modules": [extension]}))
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as objects:
        command.build_lib, command.build_temp = str(into), objects
        command.ensure_finalized()
        before = Path.cwd()
        os.chdir(root)
        try:
            command.run()
        finally:
            os.chdir(before)
    (module,) = (Path(path) for path in command.get_outputs())
    return module


def tag() -> str:
    """What the wheel runs on: this platform, and any CPython from 3.11 on."""
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"cp311-abi3-{platform}"
