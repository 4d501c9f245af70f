"""Federated learning in which late, lost and tiny updates still count.

What people need to write and to simulate a federation. A name is imported when it is
first used: torch only with ``TorchWorkload`` and ``models``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedcore.workload import Client as Client
    from fedcore.workload import Trained as Trained
    from fedcore.workload import TrainingTask as TrainingTask
    from fedcore.workload import Workload as Workload
    from fedrun.callbacks import Callback as Callback
    from fedrun.callbacks import EarlyStopping as EarlyStopping
    from fedrun.callbacks import MLflow as MLflow
    from fedrun.callbacks import TensorBoard as TensorBoard
    from fedrun.callbacks import WandB as WandB
    from fedrun.results import Results as Results
    from fedrun.what_if.api import leave_one_out as leave_one_out
    from fedrun.what_if.api import replay as replay
    from fedsim.api import run as run
    from fedsim.experiments.api import compare_codecs as compare_codecs
    from fedsim.experiments.api import compare_runs as compare_runs
    from fedsim.experiments.api import run_sweep as run_sweep
    from fedsim.experiments.coding.study import coding as coding
    from fedsim.experiments.influence.api import influence as influence
    from fedsim.experiments.plan.api import plan as plan
    from fedsim.experiments.predict.api import predict as predict
    from fedsim.experiments.scaling.api import scale as scale
    from fedtorch import TorchWorkload as TorchWorkload
    from fedtorch.hugging_face import HuggingFaceWorkload as HuggingFaceWorkload
    from fedtorch.patch import patch as patch
    from latecomer import data as data
    from latecomer import metrics as metrics
    from latecomer import models as models
    from latecomer import partitions as partitions

_MODULES = {
    "Callback": "fedrun.callbacks",
    "Client": "fedcore.workload",
    "EarlyStopping": "fedrun.callbacks",
    "HuggingFaceWorkload": "fedtorch.hugging_face",
    "MLflow": "fedrun.callbacks",
    "Results": "fedrun.results",
    "TensorBoard": "fedrun.callbacks",
    "TorchWorkload": "fedtorch",
    "Trained": "fedcore.workload",
    "TrainingTask": "fedcore.workload",
    "WandB": "fedrun.callbacks",
    "Workload": "fedcore.workload",
    "coding": "fedsim.experiments.coding.study",
    "compare_codecs": "fedsim.experiments.api",
    "compare_runs": "fedsim.experiments.api",
    "influence": "fedsim.experiments.influence.api",
    "leave_one_out": "fedrun.what_if.api",
    "patch": "fedtorch.patch",
    "plan": "fedsim.experiments.plan.api",
    "predict": "fedsim.experiments.predict.api",
    "replay": "fedrun.what_if.api",
    "run": "fedsim.api",
    "run_sweep": "fedsim.experiments.api",
    "scale": "fedsim.experiments.scaling.api",
}
"""The module that defines each name."""

_SUBMODULES = ("data", "metrics", "models", "partitions")


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used.

    Raises:
        AttributeError: the package has no such name.
    """
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found


def __dir__() -> list[str]:
    """The public names, also those that nothing has used yet."""
    return sorted([*_MODULES, *_SUBMODULES])
