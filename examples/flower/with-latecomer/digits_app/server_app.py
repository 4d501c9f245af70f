"""with-latecomer: the ServerApp. Two lines differ from one with FedAvg."""

from flwr.app import Array, ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from digits_app.task import evaluate, initial_model
from fedflower.strategy import Latecomer
from latecomer.data import digits

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run a federation in which nobody waits for the slowest node."""
    config = context.run_config
    strategy = Latecomer(buffer=config["buffer"], journal=config["journal"] or None)
    model = initial_model()
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord({name: Array(w) for name, w in model.items()}),
        num_rounds=config["num-server-rounds"],
        evaluate_fn=global_evaluate,
    )


def global_evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    """Evaluate the model on central data."""
    model = {name: array.numpy() for name, array in arrays.items()}
    loss, accuracy = evaluate(model, *digits("test"))
    return MetricRecord({"loss": loss, "accuracy": accuracy})
