"""Flower: its simulation runtime on Ray, one actor for each core."""

from typing import Any

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import nn

from benchmarks.simulation.peers.networks import network, put, taken
from benchmarks.simulation.peers.problem import Course, Problem

RESOURCES = {"num_cpus": 1, "num_gpus": 0.0}  # of a client


def client_app(problem: Problem) -> ClientApp:
    """What a client does; Ray's workers get the problem once each, with the app."""
    app = ClientApp()
    kept: dict[str, nn.Module] = {}

    @app.train()
    def train(message: Message, context: Context) -> Message:
        torch.set_num_threads(1)
        module = kept.setdefault("module", network(problem))
        put(module, message.content["arrays"].to_numpy_ndarrays())
        x, y = map(torch.from_numpy, problem.data(context.node_config["partition-id"]))
        optimizer = torch.optim.SGD(module.parameters(), lr=problem.lr)
        for _ in range(problem.epochs):
            order = torch.randperm(len(y))
            for at in range(0, len(y), problem.batch):
                rows = order[at : at + problem.batch]
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(module(x[rows]), y[rows])
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        records = {
            "arrays": ArrayRecord(list(taken(module))),
            "metrics": MetricRecord({"num-examples": len(y)}),
        }
        return Message(content=RecordDict(records), reply_to=message)

    return app


def server_app(course: Course) -> ServerApp:
    """FedAvg for so many rounds."""
    app, problem = ServerApp(), course.problem

    def after_round(number: int, arrays: ArrayRecord) -> None:
        if number:
            course.finished(number, arrays.to_numpy_ndarrays)

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        strategy = FedAvg(
            fraction_train=problem.cohort / problem.clients,
            fraction_evaluate=0.0,
            min_train_nodes=problem.cohort,
            min_available_nodes=problem.clients,
        )
        strategy.start(
            grid=grid,
            initial_arrays=ArrayRecord(list(problem.initial)),
            num_rounds=course.rounds,
            evaluate_fn=after_round,
        )

    return app


def main() -> None:
    course = Course()
    resources: Any = {"client_resources": RESOURCES}
    run_simulation(
        server_app=server_app(course),
        client_app=client_app(course.problem),
        num_supernodes=course.problem.clients,
        backend_config=resources,
    )
    course.save()


if __name__ == "__main__":
    main()
