"""Small Flower apps for tests, written into folders."""

from pathlib import Path
from textwrap import dedent

PYPROJECT = """\
[project]
name = "tiny"

[tool.flwr.app]
publisher = "tests"

[tool.flwr.app.components]
serverapp = "tiny.server_app:app"
clientapp = "tiny.client_app:app"

[tool.flwr.app.config]
num-server-rounds = 3
lr = 0.5
nested.words = "some words"

[tool.flwr.federations]
default = "local"

[tool.flwr.federations.local]
options.num-supernodes = 4
"""
SERVER = """\
import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


@app.main()
def main(grid, context):
    arrays = ArrayRecord({"w": Array(np.random.standard_normal(3))})
    FedAvg().start(
        grid,
        arrays,
        num_rounds=context.run_config["num-server-rounds"],
        train_config=ConfigRecord({"lr": context.run_config["lr"]}),
    )
"""
CLIENT_HEAD = """\
import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


def reply(msg, arrays, metrics):
    content = RecordDict({"metrics": MetricRecord(metrics)})
    if arrays is not None:
        found = {name: Array(np.asarray(value)) for name, value in arrays.items()}
        content["arrays"] = ArrayRecord(found)
    return Message(content, reply_to=msg)
"""
CLIENT = """

@app.train()
def train(msg, context):
    w = msg.content["arrays"]["w"].numpy()
    target = context.node_config["partition-id"] + 1.0
    w = w + msg.content["config"]["lr"] * (target - w)
    loss = float(((w - target) ** 2).mean())
    return reply(msg, {"w": w}, {"train_loss": loss, "num-examples": 10})


@app.evaluate()
def evaluate(msg, context):
    w = msg.content["arrays"]["w"].numpy()
    return reply(msg, None, {"size": float(abs(w).max()), "num-examples": 5})
"""


def tiny(
    folder: Path,
    client: str = CLIENT,
    server: str = SERVER,
    pyproject: str = PYPROJECT,
) -> Path:
    """Writes an app, whose ClientApp pulls the model towards a number of its own.

    Args:
        folder: in which the app's folder is made.
        client: the functions of the ClientApp.
        server: the module of the ServerApp.
        pyproject: the file pyproject.toml.
    """
    path = folder / "app"
    package = path / "tiny"
    package.mkdir(parents=True)
    (path / "pyproject.toml").write_text(pyproject)
    (package / "__init__.py").write_text("")
    (package / "client_app.py").write_text(CLIENT_HEAD + dedent(client))
    (package / "server_app.py").write_text(dedent(server))
    return path


def trains(body: str) -> str:
    """Returns a ClientApp whose function for training has this body."""
    lines = "".join(f"    {line}\n" for line in dedent(body).strip().splitlines())
    return (
        "\n\n@app.train()\ndef train(msg, context):\n"
        '    w = msg.content["arrays"]["w"].numpy()\n' + lines
    )


def serves(body: str) -> str:
    """Returns a ServerApp whose main function has this body."""
    lines = "".join(f"    {line}\n" for line in dedent(body).strip().splitlines())
    head = SERVER[: SERVER.index("@app.main")]
    return f"{head}@app.main()\ndef main(grid, context):\n{lines}"
