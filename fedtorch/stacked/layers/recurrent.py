"""Recurrent layers, one time step of all models after the other."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import nn

from fedtorch.stacked.layers.base import Function, Layer
from fedtorch.stacked.layers.lstm import LSTMRecurrence
from fedtorch.stacked.layers.registry import Maker, register

Parameters = Sequence[torch.Tensor | None]
Cell = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

WIDE = 32  # states, beyond which oneDNN's LSTM of one model is faster on a CPU


def recurrent(layer: Any) -> Function:
    """Returns LSTM, GRU or RNN over (N, B, T, F): the outputs of all time steps.

    The parameters are in the order of ``named_parameters``: for each of its layers the
    input weights, the hidden weights, and the two biases if there are any.
    """
    many = 4 if layer.bias else 2
    cell = None if type(layer) is nn.LSTM else _CELLS[type(layer)](layer)

    def function(x: torch.Tensor, parameters: Parameters) -> torch.Tensor:
        if cell is None and layer.hidden_size > WIDE and x.device.type == "cpu":
            return _one_after_the_other(layer, x, parameters)
        for depth in range(layer.num_layers):
            if depth and layer.dropout:
                x = nn.functional.dropout(x, layer.dropout, training=True)
            x = _run(cell, x, parameters[depth * many : (depth + 1) * many])
        return x

    return function


def _run(cell: Cell | None, x: torch.Tensor, parameters: Parameters) -> torch.Tensor:
    n, b, t = x.shape[:3]
    w_x, w_h = (_all(p, n) for p in parameters[:2])
    biases = [_all(p, n).unsqueeze(1) for p in parameters[2:]]
    flat = x.reshape(n, b * t, -1)
    if cell is None:
        return _lstm(flat, w_x, w_h, biases, (n, b, t))
    inputs = torch.bmm(flat, w_x.transpose(1, 2))
    if biases:
        inputs = inputs + biases[0]
    steps = inputs.view(n, b, t, -1).unbind(2)
    w_h = w_h.transpose(1, 2)
    h = x.new_zeros(n, b, w_h.shape[1])
    outputs = []
    for step in steps:
        hidden = biases[1].baddbmm(h, w_h) if biases else torch.bmm(h, w_h)
        h = cell(step, hidden, h)
        outputs.append(h)
    return torch.stack(outputs, 2)


def _one_after_the_other(
    layer: Any, x: torch.Tensor, parameters: Parameters
) -> torch.Tensor:
    """Calls torch's own LSTM for each model."""
    n, b = x.shape[:2]
    zeros = x.new_zeros(layer.num_layers, b, layer.hidden_size)
    of_each = zip(*(_all(p, n).unbind(0) for p in parameters), strict=True)
    settings = (layer.bias, layer.num_layers, layer.dropout, True, False, True)
    lstm = cast(Any, torch.lstm)
    outputs = [
        lstm(samples, (zeros, zeros), own, *settings)[0]
        for samples, own in zip(x.unbind(0), of_each, strict=True)
    ]
    return torch.stack(outputs)


def _lstm(
    flat: torch.Tensor,
    w_x: torch.Tensor,
    w_h: torch.Tensor,
    biases: Sequence[torch.Tensor],
    shape: tuple[int, int, int],
) -> torch.Tensor:
    n, b, t = shape
    if biases:
        inputs = torch.baddbmm(biases[0] + biases[1], flat, w_x.transpose(1, 2))
    else:
        inputs = torch.bmm(flat, w_x.transpose(1, 2))
    inputs = inputs.view(n, b, t, -1).permute(2, 0, 1, 3)
    outputs: torch.Tensor = cast(Any, LSTMRecurrence.apply)(inputs, w_h)
    return outputs.permute(1, 2, 0, 3)


def _all(parameter: torch.Tensor | None, n: int) -> torch.Tensor:
    assert parameter is not None
    return parameter.expand(n, *parameter.shape[1:])


def _gru(layer: Any) -> Cell:
    def cell(
        inputs: torch.Tensor, hidden: torch.Tensor, h: torch.Tensor
    ) -> torch.Tensor:
        r_x, z_x, n_x = inputs.chunk(3, -1)
        r_h, z_h, n_h = hidden.chunk(3, -1)
        r, z = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
        new = torch.tanh(n_x + r * n_h)
        return new + z * (h - new)

    return cell


def _rnn(layer: Any) -> Cell:
    function = torch.tanh if layer.nonlinearity == "tanh" else torch.relu

    def cell(
        inputs: torch.Tensor, hidden: torch.Tensor, h: torch.Tensor
    ) -> torch.Tensor:
        return function(inputs + hidden)

    return cell


_CELLS: dict[type[nn.Module], Callable[[Any], Cell]] = {
    nn.GRU: _gru,
    nn.RNN: _rnn,
}


def _make(maker: Maker, layer: nn.Module) -> Layer:
    return maker.compose(recurrent(layer), tuple(layer.parameters()))


def _refusal(layer: Any) -> str | None:
    if (
        not layer.batch_first
        or layer.bidirectional
        or layer.proj_size
        or layer.mode not in ("LSTM", "GRU", "RNN_TANH", "RNN_RELU")
    ):
        return "is stacked only with batch_first=True, in one direction, unprojected"
    return None


register(nn.LSTM, nn.GRU, nn.RNN, make=_make, refusal=_refusal, returns_tuple=True)
