"""Workers as actors of a Ray cluster.

Ray chooses their machines and moves their messages; ``ray.init`` finds the cluster
(``RAY_ADDRESS``), or starts one on this machine.
"""

import sys
from collections.abc import Callable
from typing import Any

from fedrun.optional import require
from fedrun.user_files import PREFIX
from fedsim.engines.stacked.worker import Blueprint, Reply, Share, Trial, Worker
from fedsim.engines.stacked.worker_pool import Link, LinkLostError


def ray_links(blueprint: Blueprint) -> Callable[[], Link]:
    """Returns a function that starts an actor, and the link to it.

    Args:
        blueprint: the data from which each worker is made.

    Raises:
        ConfigError: Ray is not installed.
    """
    ray = require("ray", "ray", "simulate.engine: kind ray")
    if not ray.is_initialized():
        ray.init(log_to_driver=False, include_dashboard=False)
    for name, module in list(sys.modules.items()):
        # The actors cannot import an app that is only a file.
        if name.startswith(PREFIX):
            ray.cloudpickle.register_pickle_by_value(module)
    gpus = 0 if blueprint.device == "cpu" else 1
    actor = ray.remote(num_cpus=1, num_gpus=gpus)(Worker)
    made_of = ray.put(blueprint)
    arrays: dict[int, Any] = {}  # stored in Ray once for all actors
    return lambda: RayLink(ray, actor.remote(made_of), arrays)


class RayLink:
    """The link to a worker that is an actor."""

    def __init__(self, ray: Any, actor: Any, arrays: dict[int, Any]) -> None:
        self._ray, self._actor, self._arrays = ray, actor, arrays
        self._reply: Any = None

    def send(self, share: Share | Trial) -> None:
        """Sends a share of the work, or a trial."""
        stored = None
        if isinstance(share, Share) and share.arrays is not None:
            key = id(share.arrays[0])
            if key not in self._arrays:
                self._arrays[key] = self._ray.put(share.arrays)
            stored = self._arrays[key]
            share = share._replace(arrays=None)
        self._reply = self._actor.answer.remote(share, stored)

    def receive(self) -> Reply:
        """Waits for the result of the share.

        Raises:
            LinkLostError: the actor has died.
        """
        try:
            reply: Reply = self._ray.get(self._reply)
        except self._ray.exceptions.RayActorError as error:
            raise LinkLostError("an actor of Ray has died") from error
        return reply

    def close(self) -> None:
        """Kills the actor."""
        self._ray.kill(self._actor)
