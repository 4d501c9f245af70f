"""quickstart-numpyclient: the ServerApp."""

from flwr.common import Context, ndarrays_to_parameters
from flwr.server import ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.serverapp import ServerApp

from quickstart_numpyclient.task import initial_parameters


def weighted_average(metrics):
    """Return the mean accuracy of the clients."""
    total = sum(examples for examples, _ in metrics)
    return {"accuracy": sum(n * m["accuracy"] for n, m in metrics) / total}


def server_fn(context: Context):
    """Return the strategy and the number of rounds."""
    config = context.run_config
    strategy = FedAvg(
        fraction_fit=config["fraction-fit"],
        on_fit_config_fn=lambda server_round: {"lr": config["learning-rate"]},
        evaluate_metrics_aggregation_fn=weighted_average,
        initial_parameters=ndarrays_to_parameters(initial_parameters()),
    )
    rounds = ServerConfig(num_rounds=config["num-server-rounds"])
    return ServerAppComponents(strategy=strategy, config=rounds)


app = ServerApp(server_fn=server_fn)
