"""quickstart-sklearn: the ClientApp."""

import warnings

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from sklearn.metrics import log_loss

from quickstart_sklearn.task import (
    get_model,
    get_model_params,
    load_data,
    set_model_params,
)

app = ClientApp()


def _received(msg: Message, context: Context):
    model = get_model(context.run_config["penalty"], context.run_config["local-epochs"])
    set_model_params(model, msg.content["arrays"].to_numpy_ndarrays())
    return model, load_data(
        context.node_config["partition-id"], context.node_config["num-partitions"]
    )


@app.train()
def train(msg: Message, context: Context):
    """Train the model on local data."""
    model, (x, _, y, _) = _received(msg, context)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few iterations do not converge
        model.fit(x, y)
    content = RecordDict(
        {
            "arrays": ArrayRecord(get_model_params(model)),
            "metrics": MetricRecord(
                {
                    "train_logloss": log_loss(y, model.predict_proba(x)),
                    "num-examples": len(y),
                }
            ),
        }
    )
    return Message(content=content, reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context):
    """Evaluate the model on local data."""
    model, (_, x, _, y) = _received(msg, context)
    metrics = MetricRecord(
        {
            "test_logloss": log_loss(y, model.predict_proba(x), labels=model.classes_),
            "accuracy": model.score(x, y),
            "num-examples": len(y),
        }
    )
    return Message(content=RecordDict({"metrics": metrics}), reply_to=msg)
