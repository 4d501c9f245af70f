"""Callbacks, called as a run goes on: TensorBoard, MLflow, Weights & Biases."""

from collections.abc import Callable

from fedview.callbacks.base import Callback as Callback
from fedview.callbacks.base import Notice as Notice
from fedview.callbacks.base import Notifier as Notifier
from fedview.callbacks.base import UpdatesDecided as UpdatesDecided
from fedview.callbacks.early_stopping import EarlyStopping as EarlyStopping
from fedview.callbacks.mlflow import MLflow as MLflow
from fedview.callbacks.tensorboard import TensorBoard as TensorBoard
from fedview.callbacks.wandb import WandB as WandB

CALLBACKS: dict[str, Callable[[], Callback]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
    "wandb": WandB,
}
