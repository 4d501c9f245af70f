"""with-latecomer: the ClientApp. The mod is the one line that latecomer needs."""

import time

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from digits_app.task import evaluate as evaluate_model
from digits_app.task import load_data
from digits_app.task import train as train_model
from fedflower.mod import compressed

app = ClientApp(mods=[compressed])


def _given(msg, context):
    arrays = msg.content["arrays"]
    model = {name: array.numpy().copy() for name, array in arrays.items()}
    part, parts = (
        context.node_config["partition-id"],
        context.node_config["num-partitions"],
    )
    return model, load_data(part, parts), part


@app.train()
def train(msg: Message, context: Context):
    """Train the model on local data."""
    config = context.run_config
    model, ((x, y), _), part = _given(msg, context)
    if part == config["slow-node"]:
        time.sleep(config["slow-seconds"])
    rng = np.random.default_rng([part, msg.content["config"]["server-round"]])
    loss = train_model(
        model,
        x,
        y,
        config["local-steps"],
        config["learning-rate"],
        config["batch-size"],
        rng,
    )
    arrays = ArrayRecord({name: Array(value) for name, value in model.items()})
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(y)})
    content = RecordDict({"arrays": arrays, "metrics": metrics})
    return Message(content=content, reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context):
    """Evaluate the model on local data."""
    model, (_, (x, y)), _ = _given(msg, context)
    loss, accuracy = evaluate_model(model, x, y)
    metrics = {"eval_loss": loss, "eval_acc": accuracy, "num-examples": len(y)}
    return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=msg)
