"""A perceptron in plain NumPy, whose processes start fast and need little memory."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from fedcore.params import Tensors


class Perceptron(NamedTuple):
    """Layers of these widths, with ReLU between them and a softmax at the end."""

    widths: tuple[int, ...]

    def initial(self, rng: np.random.Generator) -> Tensors:
        """He's initialisation."""
        made = dict[str, Any]()
        for layer, (fan_in, fan_out) in enumerate(pairwise(self.widths)):
            scale = np.sqrt(2 / fan_in)
            made[f"w{layer}"] = scale * rng.standard_normal((fan_in, fan_out))
            made[f"b{layer}"] = np.zeros(fan_out)
        return made

    def outputs(self, params: Tensors, x: Any) -> list[Any]:
        """The inputs of each layer, and the probabilities of the classes."""
        found, last = [x], len(self.widths) - 2
        for layer in range(last + 1):
            x = x @ params[f"w{layer}"] + params[f"b{layer}"]
            found.append(np.maximum(x, 0) if layer < last else x)
            x = found[-1]
        exp = np.exp(x - x.max(axis=1, keepdims=True))
        found[-1] = exp / exp.sum(axis=1, keepdims=True)
        return found

    def gradient(self, params: Tensors, x: Any, y: Any) -> tuple[float, Tensors]:
        """Returns the cross-entropy and its gradient."""
        *inputs, p = self.outputs(params, x)
        true = np.arange(len(y)), y
        loss = float(-np.log(p[true] + 1e-12).mean())
        p[true] -= 1
        back, found = p / len(y), dict[str, Any]()
        for layer in reversed(range(len(inputs))):
            found[f"w{layer}"] = inputs[layer].T @ back
            found[f"b{layer}"] = back.sum(axis=0)
            back = (back @ params[f"w{layer}"].T) * (inputs[layer] > 0)
        return loss, {name: found[name] for name in params}

    def classes(self, params: Tensors, x: Any) -> Any:
        """Returns the likeliest class of each row."""
        return self.outputs(params, x)[-1].argmax(axis=1)
