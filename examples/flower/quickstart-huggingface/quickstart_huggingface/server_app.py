"""The ServerApp: FedAvg over all nodes."""

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from quickstart_huggingface.task import get_model

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Starts from a fresh model, and saves the last one."""
    run = context.run_config
    torch.manual_seed(0)
    strategy = FedAvg(
        fraction_train=run["fraction-train"],
        fraction_evaluate=run["fraction-evaluate"],
    )
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(get_model().state_dict()),
        train_config=ConfigRecord({"lr": run["learning-rate"]}),
        num_rounds=run["num-server-rounds"],
    )
    torch.save(result.arrays.to_torch_state_dict(), "final_model.pt")
