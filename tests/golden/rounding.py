"""An environment in which libraries compute as on an older processor."""

import os
from importlib import import_module


def of_an_older_processor() -> dict[str, str]:
    """Returns the environment; each library reads its variable when it is loaded.

    A variable that a library or a processor does not know changes nothing.
    """
    numpy = import_module("numpy._core._multiarray_umath")
    return {
        **os.environ,
        "OPENBLAS_CORETYPE": "Prescott",
        "NPY_DISABLE_CPU_FEATURES": " ".join(numpy.__cpu_dispatch__),
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_CBWR": "COMPATIBLE",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA",
        "OMP_NUM_THREADS": "1",
    }
