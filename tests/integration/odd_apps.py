"""Apps that are odd, and legal or refused: each is the same app wherever it runs.

Inputs are four numbers and targets three classes, unless an app says otherwise.
"""

import random
from collections import deque, namedtuple
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedcore.metrics import Accuracy
from fedcore.workload import Trained, Workload
from fedtorch import TorchWorkload

DRAWN = np.random.default_rng(1)
X = DRAWN.standard_normal((12, 4)).astype(np.float32)
Y = np.arange(12) % 3
WRONG: Any = "three"
Output = namedtuple("Output", "logits extra")


class Odd(NamedTuple):
    """One app."""

    make: Callable[[], Workload]
    """Makes it anew, for each of those who run it."""
    refused: str = ""
    """A part of the sentence that all say; empty: it is legal."""
    metrics: Mapping[str, float] = {}
    """Metrics of version 0, besides others."""
    in_flower: bool = True
    """Whether an app of Flower's own can be as odd."""


# ------------------------------------------------------------------------------ torch


class Net(nn.Module):
    """A linear layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        return self.layer(x)


def net(forward: Callable[..., Any] = Net.forward, **tensors: Any) -> type[Net]:
    """A module with another forward, and with more parameters, buffers and layers."""

    def init(self: Any) -> None:
        Net.__init__(self)
        for name, made in tensors.items():
            value = made() if isinstance(made, type) else made
            if isinstance(value, nn.Parameter):
                value = nn.Parameter(value.detach().clone(), value.requires_grad)
            if isinstance(value, nn.Module):
                self.add_module(name, value)
            elif isinstance(value, nn.Parameter):
                self.register_parameter(name, value)
            else:
                self.register_buffer(name, value.clone())

    return type("Own", (Net,), {"__init__": init, "forward": forward})


class Hollow(nn.Module):
    """A module whose only parameter is empty."""

    def __init__(self) -> None:
        super().__init__()
        self.empty = nn.Parameter(torch.empty(0))

    def forward(self, x: Any) -> Any:
        return x[:, :3] + self.empty.sum()


def torch_app(
    model: Any = Net, x: Any = X, y: Any = Y, test: Any = None, **parts: Any
) -> Any:
    """Returns what makes a workload of torch; parts that are classes are made anew."""

    def make() -> Workload:
        fresh = {k: v() if isinstance(v, type) else v for k, v in parts.items()}
        given: dict[str, Any] = {
            "loss": nn.CrossEntropyLoss(),
            "train_data": lambda client: (x, y),
            "test_data": lambda: test or (x, y),
        }
        return TorchWorkload(model=model, **{**given, **fresh})

    return make


class Counting(nn.CrossEntropyLoss):
    """A loss that counts its calls, as for a weight that falls with time."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, output: Any, target: Any) -> Any:
        self.calls += 1
        return super().forward(output, target) / self.calls


class Plain:
    """A loss that is no module, and counts as well."""

    def __init__(self) -> None:
        self.seen = {"calls": 0}

    def __call__(self, output: Any, target: Any) -> Any:
        self.seen["calls"] += 1
        return functional.cross_entropy(output, target) / self.seen["calls"]


class Moving(nn.Module):
    """A loss with a running mean in a buffer."""

    mean: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(()))

    def forward(self, output: Any, target: Any) -> Any:
        self.mean += output.detach().mean()
        return functional.cross_entropy(output, target) * (1 + self.mean.abs())


class Learning(nn.Module):
    """A loss with a parameter, which nobody would train."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, output: Any, target: Any) -> Any:
        return functional.cross_entropy(output * self.scale, target)


class Teacher(nn.Module):
    """A loss with a teacher, which is not trained."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.teacher = nn.Linear(3, 3)

    def forward(self, output: Any, target: Any) -> Any:
        with torch.no_grad():
            wanted = self.teacher(output)
        return functional.mse_loss(output, wanted)


class Weighed:
    """A loss that is an object, and holds numbers that stay."""

    def __init__(self) -> None:
        self.weights, self.power = torch.tensor([1.0, 2.0, 3.0]), 2

    def __call__(self, output: Any, target: Any) -> Any:
        return functional.cross_entropy(output, target, self.weights) ** self.power


class Calls:
    """A metric that is an object and counts: each evaluation is its first."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, output: Any, target: Any) -> dict[str, float]:
        self.count += 1
        return {"calls": self.count}


def counting_metric() -> Any:
    """A metric that is a closure, and counts: each evaluation is its first."""
    count = 0

    def metric(output: Any, target: Any) -> dict[str, float]:
        nonlocal count
        count += 1
        return {"calls": count}

    return metric


def of_every_type(output: Any, target: Any) -> dict[str, Any]:
    return {
        "tensor": torch.tensor(0.5),
        "with a gradient": torch.tensor(0.5, requires_grad=True),
        "bfloat16": torch.tensor([[0.5]], dtype=torch.bfloat16),
        "numpy": np.float32(0.5),
        "0-d": np.array(0.5),
        "one": np.array([0.5]),
        "int": 3,
        "int64": np.int64(3),
        "bool": True,
        "numpy's bool": np.bool_(True),
        "fraction": Fraction(1, 2),
        "decimal": Decimal("0.5"),
        "nothing": float("nan"),
    }


HALVES = "tensor", "with a gradient", "bfloat16", "numpy", "0-d", "one", "fraction"
EVERY_TYPE = dict.fromkeys((*HALVES, "decimal"), 0.5)
EVERY_TYPE |= {"int": 3.0, "int64": 3.0, "bool": 1.0, "numpy's bool": 1.0}


def of_logits(loss: Any = functional.cross_entropy, key: Any = "logits") -> Any:
    """A loss of one part of the output."""

    def part(output: Any, target: Any) -> Any:
        logits = output[key] if isinstance(key, int | str) else key(output)
        return loss(logits, target)

    return part


def remembering(first: Callable[[], Any], forward: Callable[..., Any]) -> Any:
    """An app whose module has an attribute beside its tensors, and uses it."""

    class Own(Net):
        def __init__(self) -> None:
            super().__init__()
            self.own = first()

        def forward(self, x: Any) -> Any:
            return forward(self, self.layer(x))

    return torch_app(Own)


def adding(self: Any, y: Any) -> Any:
    """Scales the outputs with a counter."""
    self.own = self.own + 1
    return y * self.own


def appending(self: Any, y: Any) -> Any:
    """Scales the outputs with the length of a list or deque."""
    self.own.append(1)
    return y * len(self.own)


def carrying(self: Any, y: Any) -> Any:
    """Adds the means of the call before."""
    before, self.own = self.own, y.detach().mean(0)
    return y + before


def once(self: Any, y: Any) -> Any:
    """Subtracts the means of the first batch, in all calls."""
    if self.own is None:
        self.own = y.detach().mean(0)
    return y - self.own


def late(self: Any, y: Any) -> Any:
    """Changes from its second call on."""
    self.own = {"new": "old"}.get(self.own, self.own + "!")
    return y * len(self.own)


def made_in_forward(self: Any, y: Any) -> Any:
    """Makes a parameter when it is first needed."""
    if self.own is None:
        self.own = nn.Parameter(torch.ones(3))
    return y * self.own


def evaluated(self: Any, y: Any) -> Any:
    """Counts evaluations: each is its first."""
    self.own += not self.training
    return y * (1 + self.own)


def cached(self: Any, y: Any) -> Any:
    """Fills a table by the length of a batch, and shows its last output."""
    if len(y) not in self.own:
        self.own[len(y)] = torch.ones(len(y), 1)
    self.shown = y.detach()
    return y * self.own[len(y)]


class Counter:
    """An object that counts, for a loss that holds it."""

    def __init__(self) -> None:
        self.count = 0

    def next(self) -> int:
        self.count += 1
        return self.count


class Holding:
    """A loss that is an object with something else in it."""

    made: Callable[[], Any]

    def __init__(self) -> None:
        self.held = type(self).made()

    def __call__(self, output: Any, target: Any) -> Any:
        return functional.cross_entropy(output, target) * self.value()

    def value(self) -> float:
        match self.held:
            case Counter():
                return self.held.next()
            case deque():
                self.held.append(1)
                return len(self.held)
            case _:
                return float(self.held.random())


def holding(made: Callable[[], Any]) -> Any:
    """An app whose loss holds what is made."""
    return torch_app(loss=type("Held", (Holding,), {"made": staticmethod(made)}))


def counting_loss() -> Any:
    """A loss that is a function and counts in its closure."""
    calls = 0

    def loss(output: Any, target: Any) -> Any:
        nonlocal calls
        calls += 1
        return functional.cross_entropy(output, target) / calls

    return loss


def with_new_loss(make_loss: Callable[[], Any]) -> Any:
    """An app whose loss is made anew."""
    return lambda: torch_app(loss=make_loss())()


def drawing() -> Workload:
    """An app that draws from global generators in its model, its loss and its data."""

    class Rows:
        def __len__(self) -> int:
            return len(X)

        def __getitem__(self, row: int) -> Any:
            return X[row] + np.float32(np.random.rand()), Y[row]  # noqa: NPY002, TID251

    def forward(self: Any, x: Any) -> Any:
        return self.layer(x) * random.random() + torch.rand(3)

    def loss(output: Any, target: Any) -> Any:
        factor = np.random.rand()  # noqa: NPY002, TID251
        return functional.cross_entropy(output, target) * factor

    made: Workload = torch_app(
        net(forward), loss=loss, train_data=lambda client: Rows()
    )()
    return made


MODEL = "the model changes its 'own' in training"
DRAWS = "draws random numbers from its own 'own'"
SCALE = nn.Parameter(torch.tensor(1.5))
FROZEN = nn.Parameter(torch.ones(3), requires_grad=False)
TORCH = {
    "a parameter without dimensions": Odd(
        torch_app(net(lambda self, x: self.layer(x) * self.scale, scale=SCALE))
    ),
    "empty parameters": Odd(
        torch_app(
            net(
                lambda self, x: self.layer(x) + self.a.sum() + self.b.sum(),
                a=nn.Parameter(torch.empty(0)),
                b=nn.Parameter(torch.empty(3, 0)),
            )
        )
    ),
    "a model without values": Odd(
        torch_app(Hollow), refused="the model has no values to train", in_flower=False
    ),
    "buffers of whole numbers": Odd(
        torch_app(
            net(
                lambda self, x: self.layer(x[:, self.order]) + self.flag,
                order=torch.tensor([3, 2, 1, 0]),
                flag=torch.tensor(True),
            )
        )
    ),
    "a buffer that changes": Odd(
        torch_app(
            net(
                lambda self, x: self.layer(x) + self.calls.add_(1).float() * 0,
                calls=torch.tensor(0),
            )
        ),
        refused="buffer 'calls' changes in training",
        in_flower=False,
    ),
    **{
        f"a module with {what}": Odd(
            remembering(first, forward), refused=refused, in_flower=False
        )
        for what, first, forward, refused in (
            ("a counter", lambda: 0, adding, MODEL),
            ("a tensor that is no buffer", lambda: torch.zeros(3), adding, MODEL),
            ("a list", list, appending, MODEL),
            ("a deque", lambda: deque(maxlen=50), appending, MODEL),
            ("means of the call before", lambda: 0.0, carrying, MODEL),
            ("means of its first batch", lambda: None, once, MODEL),
            ("a state that changes late", lambda: "new", late, MODEL),
            (
                "a generator of torch",
                torch.Generator,
                lambda self, y: y * torch.rand(3, generator=self.own),
                f"the model {DRAWS}",
            ),
            (
                "a generator of NumPy",
                np.random.default_rng,
                lambda self, y: y * self.own.random(),
                f"the model {DRAWS}",
            ),
            (
                "a generator of Python",
                random.Random,
                lambda self, y: y * self.own.random(),
                f"the model {DRAWS}",
            ),
            (
                "a parameter that forward makes",
                lambda: None,
                made_in_forward,
                "the model has a parameter 'own'",
            ),
        )
    },
    "a module that counts its evaluations": Odd(remembering(lambda: 0, evaluated)),
    "a module that fills a table": Odd(remembering(dict, cached)),
    "frozen parameters": Odd(
        torch_app(net(lambda self, x: self.layer(x) * self.f, f=FROZEN))
    ),
    "a layer that is used twice": Odd(
        torch_app(lambda: nn.Sequential(*[nn.Linear(4, 4)] * 2, nn.Linear(4, 3)))
    ),
    "names with spaces and letters": Odd(
        torch_app(
            net(
                lambda self, x: self.layer(x) + self.get_submodule("größte Stufe")(x),
                **{
                    "größte Stufe": type(
                        "L",
                        (nn.Linear,),
                        {"__init__": lambda self: nn.Linear.__init__(self, 4, 3)},
                    )
                },
            )
        )
    ),
    "a name that files keep for themselves": Odd(
        torch_app(
            net(
                lambda self, x: self.layer(x) * self.__metadata__,
                __metadata__=nn.Parameter(torch.ones(3)),
            )
        ),
        refused="the name '__metadata__'",
        in_flower=False,
    ),
    "a name that moves a cursor": Odd(
        torch_app(
            net(
                lambda self, x: self.layer(x) * getattr(self, "\x1b[2J"),
                **{"\x1b[2J": nn.Parameter(torch.ones(3))},
            )
        ),
        refused=r"the name '\x1b[2J'",
        in_flower=False,
    ),
    "inputs in a dict": Odd(
        torch_app(
            net(lambda self, x: self.layer(x["a"] + x["b"])), x={"a": X, "b": X[::-1]}
        )
    ),
    "inputs in a tuple": Odd(
        torch_app(net(lambda self, x: self.layer(x[0] + x[1])), x=(X, X[::-1]))
    ),
    "inputs of whole numbers": Odd(
        torch_app(
            lambda: nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(8, 3)),
            x=(np.arange(24) % 5).reshape(12, 2).astype(np.uint8).astype(np.int32),
        )
    ),
    "inputs in double precision": Odd(torch_app(x=X.astype(np.float64))),
    "inputs backwards": Odd(torch_app(x=X[::-1], y=Y[::-1])),
    "targets of truth values": Odd(
        torch_app(lambda: nn.Sequential(nn.Linear(4, 2), nn.Flatten()), y=Y > 1)
    ),
    "targets of several numbers": Odd(torch_app(y=np.eye(3)[Y], loss=nn.MSELoss())),
    "outputs in a dict": Odd(
        torch_app(
            net(lambda self, x: {"logits": self.layer(x), "hidden": x, "none": None}),
            loss=of_logits(),
            metrics=of_logits(lambda o, y: {"rows": len(o)}),
        ),
        metrics={"rows": 12},
    ),
    "outputs in a tuple": Odd(
        torch_app(net(lambda self, x: (self.layer(x), x.mean())), loss=of_logits(key=0))
    ),
    "outputs in a named tuple": Odd(
        torch_app(
            net(lambda self, x: Output(self.layer(x), x)),
            loss=of_logits(key=lambda output: output.logits),
        )
    ),
    "outputs in a list": Odd(
        torch_app(net(lambda self, x: [self.layer(x), x]), loss=of_logits(key=0))
    ),
    "batch statistics": Odd(
        torch_app(
            lambda: nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3)), buffers="average"
        )
    ),
    "a loss with weights of classes": Odd(
        torch_app(loss=nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0])))
    ),
    "a loss that is an object": Odd(torch_app(loss=Weighed)),
    "a loss with a teacher": Odd(torch_app(loss=Teacher)),
    "a loss that counts": Odd(
        torch_app(loss=Counting),
        refused="the loss changes its 'calls' in training",
        in_flower=False,
    ),
    "a loss that is no module and counts": Odd(
        torch_app(loss=Plain),
        refused="the loss changes its 'seen' in training",
        in_flower=False,
    ),
    "a loss with a running mean": Odd(
        torch_app(loss=Moving),
        refused="the loss changes its 'mean' in training",
        in_flower=False,
    ),
    "a loss with an object that counts": Odd(
        holding(Counter),
        refused="the loss changes its 'held.count' in training",
        in_flower=False,
    ),
    "a loss with a deque": Odd(
        holding(deque),
        refused="the loss changes its 'held' in training",
        in_flower=False,
    ),
    "a loss with a generator": Odd(
        holding(random.Random),
        refused="the loss draws random numbers from its own 'held'",
        in_flower=False,
    ),
    "a loss that is a function and counts": Odd(
        with_new_loss(counting_loss),
        refused="the loss changes its 'calls' in training",
        in_flower=False,
    ),
    "a loss with a parameter": Odd(
        torch_app(loss=Learning),
        refused="the loss has a parameter 'scale'",
        in_flower=False,
    ),
    "metrics of every type": Odd(torch_app(metrics=of_every_type), metrics=EVERY_TYPE),
    "metrics that are objects": Odd(
        torch_app(metrics={"share": Accuracy(), "again": Accuracy()})
    ),
    "a metric that counts": Odd(torch_app(metrics=Calls), metrics={"calls": 1}),
    "a metric that is a closure and counts": Odd(
        torch_app(metrics=counting_metric()), metrics={"calls": 1}, in_flower=False
    ),
    "a metric with an empty name": Odd(
        torch_app(metrics=lambda output, target: {" ": 0.5}),
        refused="a metric's name is ' '; expected printable text",
    ),
    "no metric but the loss": Odd(torch_app(metrics=None)),
    "a metric that is no number": Odd(
        torch_app(metrics=lambda output, target: {"all": output}),
        refused="the metric 'all' is an array of shape (12, 3); expected one number",
    ),
    "a metric without a name": Odd(
        torch_app(metrics=lambda output, target: 0.5),
        refused="an evaluation returned float; expected numbers by name",
        in_flower=False,
    ),
    "a metric whose name is a number": Odd(
        torch_app(metrics=lambda output, target: {7: 0.5}),
        refused="a metric's name is 7; expected text",
    ),
    "a metric's name that moves a cursor": Odd(
        torch_app(metrics=lambda output, target: {"\x1b": 0.5}),
        refused="a metric's name must be printable text",
    ),
    "too many metrics": Odd(
        torch_app(metrics=lambda output, target: {str(i): 0.5 for i in range(64)}),
        refused="65 metrics, the limit is 64",
    ),
    "a loss that cannot be computed": Odd(
        torch_app(y=Y + 1, test=(X, Y)),
        refused="training raised IndexError: Target 3 is out of bounds",
        in_flower=False,
    ),
    "a model that cannot be built": Odd(
        torch_app(lambda: nn.Linear(4, WRONG)),
        refused="model raised TypeError",
        in_flower=False,
    ),
    "a model that ends the process": Odd(
        torch_app(lambda: exit(3)),
        refused="model called sys.exit(3), which would end the process",
        in_flower=False,
    ),
}


# ------------------------------------------------------------------------------ NumPy


def initial(rng: Any = None) -> dict[str, Any]:
    return {"w": np.zeros((4, 3)), "b": np.zeros(3)}


def gradient(params: Any, x: Any, y: Any) -> tuple[Any, dict[str, Any]]:
    scores = x @ params["w"] + params["b"]
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    loss = -np.log(p[np.arange(len(y)), y]).mean()
    p[np.arange(len(y)), y] -= 1
    return loss, {"w": x.T @ p / len(y), "b": p.mean(axis=0)}


def counting_gradient() -> Any:
    """A gradient that counts in its closure."""
    calls: list[int] = []

    def counted(params: Any, x: Any, y: Any) -> Any:
        calls.append(1)
        loss, slopes = gradient(params, x, y)
        return loss, {name: each / len(calls) for name, each in slopes.items()}

    return counted


def evaluate(params: Any, x: Any, y: Any) -> dict[str, Any]:
    return {"loss": gradient(params, x, y)[0]}


def numpy_app(**parts: Any) -> Any:
    """Returns what makes a workload of named arrays."""

    def make() -> Workload:
        given: dict[str, Any] = {
            "initial": initial,
            "gradient": gradient,
            "evaluate": evaluate,
            "train_data": lambda client: (X, Y),
            "test_data": lambda: (X, Y),
        }
        return Workload(**{**given, **parts})

    return make


def begun_with(more: Any, **others: Any) -> Any:
    """An app whose first model has more arrays, without any gradient, or others."""

    def also(params: Any, x: Any, y: Any) -> Any:
        loss, slopes = gradient(params, x, y)
        return loss, {**slopes, **{n: np.zeros(np.shape(a)) for n, a in more.items()}}

    return numpy_app(initial=lambda rng: {**initial(), **more}, gradient=also, **others)


def looped(**returned: Any) -> Any:
    """An app with a loop of its own, which returns this as well."""

    def train(params: Any, data: Any, task: Any) -> Trained:
        count = task.state.get("count", 0)
        loss, slopes = gradient(params, *data)
        after = {name: params[name] - task.lr * slopes[name] for name in params}
        given = {"samples": len(data[1]), "loss": loss, "state": {"count": count + 1}}
        return Trained(after, **{**given, **returned})

    return numpy_app(gradient=None, train=train)


NUMPY = {
    "arrays without dimensions and empty ones": Odd(
        begun_with({"t": np.array(2.0), "none": np.zeros((0, 3))})
    ),
    "arrays of several types": Odd(
        numpy_app(
            initial=lambda rng: {
                "w": np.zeros((4, 3), np.float16),
                "b": np.zeros(3, np.float64),
            }
        )
    ),
    "names of every kind": Odd(
        begun_with({"a/b": np.ones(1), "ein Name": np.ones(1), "日本": np.ones(1)})
    ),
    "a name that is a number": Odd(
        begun_with({7: np.ones(1)}), refused="the name 7", in_flower=False
    ),
    "an empty name": Odd(
        begun_with({"": np.ones(1)}), refused="the name ''", in_flower=False
    ),
    "arrays of whole numbers": Odd(
        begun_with({"n": np.arange(3)}),
        refused="tensor 'n' has dtype int64; only floating-point",
        in_flower=False,
    ),
    "a gradient in another order": Odd(
        numpy_app(
            gradient=lambda *given: (
                gradient(*given)[0],
                dict(reversed(list(gradient(*given)[1].items()))),
            )
        )
    ),
    "a loss without dimensions": Odd(
        numpy_app(
            gradient=lambda *given: (
                np.array(gradient(*given)[0]),
                gradient(*given)[1],
            )
        )
    ),
    "no result": Odd(
        numpy_app(gradient=lambda *given: None),
        refused="gradient returned a NoneType; expected (loss, gradients by name)",
        in_flower=False,
    ),
    "a gradient of another shape": Odd(
        numpy_app(gradient=lambda *given: (0.5, {"w": np.zeros(4), "b": np.zeros(3)})),
        refused="what gradient returned and the federation's model differ: tensor 'w'",
        in_flower=False,
    ),
    "a gradient that ends the process": Odd(
        numpy_app(gradient=lambda *given: exit("done")),
        refused="training called sys.exit('done')",
        in_flower=False,
    ),
    "metrics of every type": Odd(
        numpy_app(evaluate=lambda params, x, y: of_every_type(x, y)), metrics=EVERY_TYPE
    ),
    "a loop whose numbers are of every type": Odd(
        looped(
            samples=np.int64(12),
            loss=torch.tensor(0.5),
            metrics={**of_every_type(None, None)},
            state={"count": np.int64(1), "rate": np.float32(0.5), "m": np.array(1.0)},
        )
    ),
    "a loop without samples": Odd(
        looped(samples=0),
        refused="train returned 0 samples; expected 1 to",
        in_flower=False,
    ),
    "a loop with half a sample": Odd(
        looped(samples=12.5),
        refused="train returned 12.5 samples; expected 1 to",
        in_flower=False,
    ),
    "a gradient that counts": Odd(
        lambda: numpy_app(gradient=counting_gradient())(),
        refused="gradient changes its 'calls' in training",
        in_flower=False,
    ),
    "a loop with half a result": Odd(
        numpy_app(gradient=None, train=lambda *given: Trained({"w": X[:4, :3]}, 1)),
        refused="tensor 'b' is missing",
        in_flower=False,
    ),
    "no rows": Odd(
        numpy_app(train_data=lambda client: (X[:0], Y[:0])),
        refused="returned no samples",
        in_flower=False,
    ),
    "data that end the process": Odd(
        numpy_app(train_data=lambda client: exit()),
        refused="called sys.exit(), which would end the process",
        in_flower=False,
    ),
}

APPS = {
    **{f"torch: {name}": odd for name, odd in TORCH.items()},
    **{f"numpy: {name}": odd for name, odd in NUMPY.items()},
}
