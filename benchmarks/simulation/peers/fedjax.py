"""FedJAX: its federated averaging, each client's steps compiled.

Its other backend, pmap over two devices of the CPU, is slower.
"""

from typing import Any

import fedjax
import jax
import jax.numpy as jnp
import numpy as np
from fedjax.algorithms import fed_avg

from benchmarks.simulation.peers.problem import Course, Problem, Weights

NAMES = ("w0", "b0", "w1", "b1")
Params = dict[str, Any]


def loss(params: Params, batch: Any, rng: Any) -> Any:
    """The mean cross-entropy of a batch."""
    hidden = jax.nn.relu(batch["x"] @ params["w0"].T + params["b0"])
    logits = hidden @ params["w1"].T + params["b1"]
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), batch["y"][:, None], 1)
    return -chosen.mean()


def federated_data(problem: Problem) -> Any:
    """In memory, as their users keep it."""
    data = {}
    for client in range(problem.clients):
        x, y = problem.data(client)
        data[f"{client:06d}"] = {"x": x, "y": y.astype(np.int32)}
    return fedjax.InMemoryFederatedData(data)


def main() -> None:
    course = Course()
    problem = course.problem
    algorithm = fed_avg.federated_averaging(
        jax.jit(jax.grad(loss)),
        client_optimizer=fedjax.optimizers.sgd(problem.lr),
        server_optimizer=fedjax.optimizers.sgd(1.0),
        client_batch_hparams=fedjax.ShuffleRepeatBatchHParams(
            batch_size=problem.batch, num_epochs=problem.epochs
        ),
    )
    sampler = fedjax.client_samplers.UniformGetClientSampler(
        federated_data(problem), num_clients=problem.cohort, seed=0
    )
    first = dict(zip(NAMES, map(jnp.asarray, problem.initial), strict=True))
    state = algorithm.init(first)

    def weights() -> Weights:
        return [np.asarray(state.params[name]) for name in NAMES]

    for number in range(1, course.rounds + 1):
        sampler.set_round_num(number)
        state, _ = algorithm.apply(state, sampler.sample())
        state.params["w0"].block_until_ready()
        course.finished(number, weights)
    course.save()


if __name__ == "__main__":
    main()
