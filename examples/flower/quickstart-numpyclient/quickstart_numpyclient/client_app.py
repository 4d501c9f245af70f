"""quickstart-numpyclient: the ClientApp."""

from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.common import Context

from quickstart_numpyclient.task import load_data, test, train


class FlowerClient(NumPyClient):
    """Trains and evaluates on one partition."""

    def __init__(self, data, config):
        self.trainset, self.testset = data
        self.config = config

    def fit(self, parameters, config):
        """Train the model on local data."""
        found = train(
            parameters,
            self.trainset,
            self.config["local-epochs"],
            config["lr"],
            self.config["batch-size"],
        )
        loss, _ = test(found, self.trainset)
        return found, len(self.trainset[1]), {"train_loss": loss}

    def evaluate(self, parameters, config):
        """Evaluate the model on local data."""
        loss, accuracy = test(parameters, self.testset)
        return loss, len(self.testset[1]), {"accuracy": accuracy}


def client_fn(context: Context):
    """Return a client for the partition of this node."""
    node = context.node_config
    data = load_data(node["partition-id"], node["num-partitions"])
    return FlowerClient(data, context.run_config).to_client()


app = ClientApp(client_fn=client_fn)
