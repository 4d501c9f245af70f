"""The names that people write, and what importing them costs."""

import subprocess
import sys
from importlib import import_module
from types import ModuleType

import pytest

import latecomer

NAMES = [
    "Callback",
    "Client",
    "EarlyStopping",
    "HuggingFaceWorkload",
    "MLflow",
    "Results",
    "TensorBoard",
    "TorchWorkload",
    "Trained",
    "TrainingTask",
    "WandB",
    "Workload",
    "coding",
    "compare_codecs",
    "compare_runs",
    "data",
    "evaluate",
    "influence",
    "join",
    "leave_one_out",
    "metrics",
    "models",
    "partitions",
    "patch",
    "plan",
    "predict",
    "replay",
    "run",
    "run_sweep",
    "scale",
    "serve",
    "staleness",
]
DATA = [
    "Exercises",
    "HuggingFaceData",
    "Subset",
    "client_file",
    "digits",
    "fashion_mnist",
    "flower_partition",
    "hugging_face",
    "load",
    "load_column",
    "shoulder_smartwatch",
]
METRICS = ["AUC", "Accuracy", "F1", "Mean", "Precision", "Recall", "RecallByClass"]
MODELS = [
    "char_lstm",
    "cnn_1d",
    "fed_avg_cnn",
    "lora_transformer",
    "mlp",
    "res_net",
    "small_cnn",
    "softmax_regression",
]
PARTITIONS = [
    "Partition",
    "balanced_dirichlet",
    "by_column",
    "dirichlet",
    "feature_noise",
    "iid",
    "k_classes",
    "lone_class",
    "quantity_skew",
    "shards",
]
HEAVY = ("torch", "numpy", "grpc", "plotly", "pydantic", "rich", "fedcore", "fedsim")


def _public(module: ModuleType) -> list[str]:
    return sorted(name for name in vars(module) if not name.startswith("_"))


def _loaded_after(code: str) -> set[str]:
    """The top-level modules that a fresh process has after running ``code``."""
    code += "; import sys; print(*{name.partition('.')[0] for name in sys.modules})"
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_package_has_these_names() -> None:
    assert dir(latecomer) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_name_can_be_imported(name: str) -> None:
    if name in ("TorchWorkload", "models"):
        pytest.importorskip("torch")
    assert getattr(latecomer, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'latecomer' has no attribute 'runs'"):
        _ = latecomer.runs


@pytest.mark.parametrize(
    ("module", "names", "home", "elsewhere"),
    [
        ("data", DATA, "fedrun.data", {"flower_partition"}),
        ("metrics", METRICS, "fedcore.metrics", set()),
        ("models", MODELS, "fedtorch.models", set()),
        ("partitions", PARTITIONS, "fedcore.partitions", set()),
    ],
)
def test_a_module_has_these_names_and_lacks_none(
    module: str, names: list[str], home: str, elsewhere: set[str]
) -> None:
    if module == "models":
        pytest.importorskip("torch")
    found = import_module(f"latecomer.{module}")
    assert _public(found) == names
    defined = vars(import_module(home)).items()
    things = {name for name, thing in defined if not isinstance(thing, ModuleType)}
    assert {name for name in things if not name.startswith("_")} == {*names} - elsewhere


@pytest.mark.processes
def test_importing_the_package_imports_nothing_else() -> None:
    assert not _loaded_after("import latecomer").intersection(HEAVY)


@pytest.mark.processes
@pytest.mark.parametrize(
    "code",
    [
        "from latecomer import Client, Results, Trained, Workload, run",
        "from latecomer.data import digits; from latecomer.partitions import dirichlet",
        "from latecomer import metrics, Callback, run_sweep",
        "from latecomer import evaluate, join, serve",
    ],
)
def test_only_a_torch_workload_imports_torch(code: str) -> None:
    assert "torch" not in _loaded_after(code)
