"""Federated learning in which late, lost and tiny updates still count.

The names that users need to write, simulate and run a federation. A name is imported
when it is first used: torch only with ``TorchWorkload`` and ``models``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedclient.api import evaluate as evaluate
    from fedclient.api import join as join
    from fedcore.workload import Client as Client
    from fedcore.workload import Trained as Trained
    from fedcore.workload import TrainingTask as TrainingTask
    from fedcore.workload import Workload as Workload
    from fedserver.api import serve as serve
    from fedsim.api import run as run
    from fedstudies.codecs.study import compare_codecs as compare_codecs
    from fedstudies.coding import coding as coding
    from fedstudies.compare.study import compare_runs as compare_runs
    from fedstudies.influence.study import influence as influence
    from fedstudies.plan.study import plan as plan
    from fedstudies.predict.study import predict as predict
    from fedstudies.scaling.study import scale as scale
    from fedstudies.staleness.study import staleness as staleness
    from fedstudies.sweep.study import run_sweep as run_sweep
    from fedtorch import TorchWorkload as TorchWorkload
    from fedtorch.hugging_face import HuggingFaceWorkload as HuggingFaceWorkload
    from fedtorch.patch import patch as patch
    from fedview.callbacks import Callback as Callback
    from fedview.callbacks import EarlyStopping as EarlyStopping
    from fedview.callbacks import MLflow as MLflow
    from fedview.callbacks import TensorBoard as TensorBoard
    from fedview.callbacks import WandB as WandB
    from fedview.results import Results as Results
    from fedview.what_if.api import leave_one_out as leave_one_out
    from fedview.what_if.api import replay as replay
    from latecomer import data as data
    from latecomer import metrics as metrics
    from latecomer import models as models
    from latecomer import partitions as partitions

    __version__: str

_MODULES = {
    "Callback": "fedview.callbacks",
    "Client": "fedcore.workload",
    "EarlyStopping": "fedview.callbacks",
    "HuggingFaceWorkload": "fedtorch.hugging_face",
    "MLflow": "fedview.callbacks",
    "Results": "fedview.results",
    "TensorBoard": "fedview.callbacks",
    "TorchWorkload": "fedtorch",
    "Trained": "fedcore.workload",
    "TrainingTask": "fedcore.workload",
    "WandB": "fedview.callbacks",
    "Workload": "fedcore.workload",
    "coding": "fedstudies.coding",
    "compare_codecs": "fedstudies.codecs.study",
    "compare_runs": "fedstudies.compare.study",
    "evaluate": "fedclient.api",
    "influence": "fedstudies.influence.study",
    "join": "fedclient.api",
    "leave_one_out": "fedview.what_if.api",
    "patch": "fedtorch.patch",
    "plan": "fedstudies.plan.study",
    "predict": "fedstudies.predict.study",
    "replay": "fedview.what_if.api",
    "run": "fedsim.api",
    "run_sweep": "fedstudies.sweep.study",
    "scale": "fedstudies.scaling.study",
    "serve": "fedserver.api",
    "staleness": "fedstudies.staleness.study",
}
"""The module that defines each name."""

_SUBMODULES = ("data", "metrics", "models", "partitions")


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used.

    Raises:
        AttributeError: the package has no such name.
    """
    if name == "__version__":
        return _version()
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found


def _version() -> str:
    """Returns the release that is installed; of sources alone, none is known."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("latecomer")
    except PackageNotFoundError:
        return "0+unknown"


def __dir__() -> list[str]:
    """Returns the public names, including those that nothing has used yet."""
    return sorted([*_MODULES, *_SUBMODULES])
