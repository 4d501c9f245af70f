"""quickstart-torch: the ClientApp."""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from quickstart_torch.task import Net, load_data
from quickstart_torch.task import test as test_fn
from quickstart_torch.task import train as train_fn

app = ClientApp()


def _data(context: Context):
    return load_data(
        context.node_config["partition-id"],
        context.node_config["num-partitions"],
        context.run_config["batch-size"],
    )


@app.train()
def train(msg: Message, context: Context):
    """Train the model on local data."""
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    partition, round_ = context.node_config["partition-id"], msg.content["config"]
    seed = context.run_config["seed"]
    torch.manual_seed(1_000_000 * seed + 1000 * round_["server-round"] + partition)
    trainloader, _ = _data(context)
    train_loss = train_fn(
        model,
        trainloader,
        context.run_config["local-epochs"],
        msg.content["config"]["lr"],
    )
    content = RecordDict(
        {
            "arrays": ArrayRecord(model.state_dict()),
            "metrics": MetricRecord(
                {"train_loss": train_loss, "num-examples": len(trainloader.dataset)}
            ),
        }
    )
    return Message(content=content, reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context):
    """Evaluate the model on local data."""
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    _, testloader = _data(context)
    loss, accuracy = test_fn(model, testloader)
    metrics = MetricRecord(
        {
            "eval_loss": loss,
            "eval_acc": accuracy,
            "num-examples": len(testloader.dataset),
        }
    )
    return Message(content=RecordDict({"metrics": metrics}), reply_to=msg)
