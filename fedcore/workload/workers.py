"""What the workers of a silo cannot compute: they share out sums of gradients alone.

The simulator and a client with real workers refuse the same for the same reasons.
"""

from fedcore.clients import ClientAlgorithmConfig
from fedcore.errors import ConfigError
from fedcore.params import ParamSpec
from fedcore.workload.base import Workload

_MANY = 1 << 40  # samples, so that a step uses a whole batch of them


def require_sums(workload: Workload, model: ParamSpec, setting: str) -> None:
    """Checks that the gradients of an app's batches are sums over their samples.

    Args:
        workload: of the app.
        model: its model.
        setting: asks for workers.

    Raises:
        ConfigError: they are not.
    """
    if type(workload).train_task is not Workload.train_task:
        raise ConfigError(
            f"{setting}: this app trains with a loop of its own (train=), and workers "
            f"share out gradients; give gradient= instead, or leave {setting} away"
        )
    if model.in_training is not None:
        raise ConfigError(
            f"{setting}: the model has batch statistics, and no worker sees a whole "
            "batch; use GroupNorm or LayerNorm, or buffers='frozen'"
        )


def require_batches(client: ClientAlgorithmConfig, workers: int, setting: str) -> None:
    """Checks that workers can share out the batches of a client algorithm.

    Args:
        client: its settings.
        workers: how many there are.
        setting: asks for them.

    Raises:
        ConfigError: it weighs single samples, or its batches are too small.
    """
    if client.build().sampling is not None:
        raise ConfigError(
            f"{setting}: this federation's client algorithm weighs single samples "
            f"({client.kind}), and workers compute sums alone; leave {setting} away"
        )
    require_size(client.used_by(_MANY, 1), workers, setting)


def require_size(batch: int, workers: int, setting: str) -> None:
    """Checks that a batch has a sample for each worker.

    Raises:
        ConfigError: it has not.
    """
    if batch < workers:
        raise ConfigError(
            f"{setting}: a batch of {batch} samples is too small for {workers} "
            f"workers: set algorithm.client.batch to {workers} or more, or take "
            f"{batch} workers or fewer"
        )
