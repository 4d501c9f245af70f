"""The federations that can be audited: the estimator's formulas hold for these."""

import math

import numpy as np

from fedcore.algorithm import AlgorithmConfig
from fedcore.clients import ClientAlgorithmConfig, LocalSGD, every
from fedcore.errors import ConfigError
from fedcore.influence.base import Curvature
from fedcore.model import FlatModel
from fedcore.samples import Samples
from fedcore.server_optimizers import SGD
from fedcore.typing import Vector
from fedcore.user_code import user_code

FEW = 4  # samples, by which products are compared with gradients
_STEPS = "local_sgd without momentum, clip_norm, clip_value and frozen tensors"


def require_auditable(config: AlgorithmConfig) -> None:
    """Checks that the influence of clients can be estimated under this recipe.

    Raises:
        ConfigError: a method is none of those that the estimator knows; the message
            names it, and what is allowed.
    """
    for client in every(config.client):
        if not _is_plain(client):
            raise ConfigError(
                f"influence: algorithm.client is {client.kind} with these settings; "
                "the estimator follows the steps w - lr·g alone, so it needs "
                f"{_STEPS}"
            )
    for way, codec in (("uplink", config.uplink), ("downlink", config.downlink)):
        if codec.kind != "identity":
            raise ConfigError(
                f"influence: algorithm.{way} is {codec.kind}; the estimator needs "
                f"messages that lose nothing: algorithm.{way}: {{kind: identity}}, as "
                "the recipes fed_avg and fed_buff have it"
            )
    if not isinstance(config.server, SGD):
        raise ConfigError(
            f"influence: algorithm.server is {config.server.kind}, which remembers "
            "earlier rounds; the estimator needs algorithm.server: {kind: sgd}"
        )
    if config.aggregator.kind != "weighted_mean":
        raise ConfigError(
            f"influence: algorithm.aggregator is {config.aggregator.kind}; the "
            "estimator needs algorithm.aggregator: {kind: weighted_mean}"
        )
    if config.controllers:
        kinds = ", ".join(each.kind for each in config.controllers)
        raise ConfigError(
            f"influence: algorithm.controllers has {kinds}, which changes tasks on the "
            "way; the estimator needs algorithm.controllers: []"
        )


def _is_plain(client: ClientAlgorithmConfig) -> bool:
    """Returns whether a step is w - lr (g + weight_decay w), and nothing else."""
    if not isinstance(client, LocalSGD):
        return False
    rule = client.rule()
    is_clipped = min(rule.clip_norm, rule.clip_value) < math.inf
    return not (rule.momentum or is_clipped or client.frozen)


def require_smooth(model: FlatModel) -> None:
    """Checks that a model consists of weights alone.

    Raises:
        ConfigError: it has batch statistics, or tensors that stay on clients.
    """
    if model.spec.in_training is not None or model.local_L is not None:
        raise ConfigError(
            "influence: this model has batch statistics or tensors that stay on "
            "clients; the estimator is for models of weights alone (buffers: frozen)"
        )


def require_curved(curvature: Curvature, w_D: Vector, samples: Samples) -> None:
    """Checks that the products with a model's Hessian match its gradients.

    Args:
        curvature: the model's.
        w_D: a model.
        samples: a client's; the first ones are used.

    Raises:
        ModelError: they do not match; the message names the estimator that needs none.
    """
    if count := min(FEW, len(samples)):
        x, y = samples.batch(np.arange(count))
        with user_code("the model"):
            curvature.check(w_D, x, y)
