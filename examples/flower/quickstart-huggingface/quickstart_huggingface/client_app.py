"""The ClientApp: trains and evaluates on one partition."""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from quickstart_huggingface.task import get_model, load_data
from quickstart_huggingface.task import test as test_fn
from quickstart_huggingface.task import train as train_fn

app = ClientApp()


def device():
    return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


def loaders(context: Context):
    node, run = context.node_config, context.run_config
    return load_data(node["partition-id"], node["num-partitions"], run["batch-size"])


@app.train()
def train(msg: Message, context: Context):
    """Trains the model that came, and sends it back."""
    model = get_model()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    loader, _ = loaders(context)
    config = msg.content["config"]
    loss = train_fn(
        model, loader, context.run_config["local-epochs"], config["lr"], device()
    )
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(loader.dataset)})
    content = RecordDict(
        {"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}
    )
    return Message(content=content, reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context):
    """Evaluates the model that came."""
    model = get_model()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    _, loader = loaders(context)
    loss, accuracy = test_fn(model, loader, device())
    metrics = MetricRecord(
        {
            "eval_loss": loss,
            "eval_acc": accuracy,
            "num-examples": len(loader.dataset),
        }
    )
    return Message(content=RecordDict({"metrics": metrics}), reply_to=msg)
