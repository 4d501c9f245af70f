"""Recurrent layers, a time step of all models at once."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from fedtorch.stacked.layers.base import Function

Parameters = Sequence[torch.Tensor | None]
Cell = Callable[[torch.Tensor, torch.Tensor, Any], tuple[torch.Tensor, Any]]


def recurrent(layer: Any) -> Function:
    """LSTM, GRU or RNN over (N, B, T, F), in one direction; the outputs of all steps.

    Parameters come in the order of ``named_parameters`` of each layer of it: input
    weights, hidden weights, and the two biases if there are any.
    """
    many = 4 if layer.bias else 2
    cell = _CELLS[type(layer)](layer)

    def function(x: torch.Tensor, parameters: Parameters) -> torch.Tensor:
        for depth in range(layer.num_layers):
            if depth and layer.dropout:
                x = nn.functional.dropout(x, layer.dropout, training=True)
            x = _run(cell, x, parameters[depth * many : (depth + 1) * many])
        return x

    return function


def _run(cell: Any, x: torch.Tensor, parameters: Parameters) -> torch.Tensor:
    n, b, t = x.shape[:3]
    w_x, w_h = (_all(p, n) for p in parameters[:2])
    flat = x.reshape(n, b * t, -1)
    biases = parameters[2:]
    if biases:
        bias_x, bias_h = (_all(p, n).unsqueeze(1) for p in biases)
        inputs = torch.baddbmm(bias_x, flat, w_x.transpose(1, 2))
    else:
        bias_h = None
        inputs = torch.bmm(flat, w_x.transpose(1, 2))
    steps = inputs.view(n, b, t, -1).unbind(2)
    w_h = w_h.transpose(1, 2)
    h = x.new_zeros(n, b, w_h.shape[1])
    state: Any = h
    outputs = []
    for step in steps:
        hidden = torch.bmm(h, w_h) if bias_h is None else bias_h.baddbmm(h, w_h)
        h, state = cell(step, hidden, state)
        outputs.append(h)
    return torch.stack(outputs, 2)


def _all(parameter: torch.Tensor | None, n: int) -> torch.Tensor:
    assert parameter is not None
    return parameter.expand(n, *parameter.shape[1:])


def _lstm(layer: Any) -> Cell:
    def cell(
        inputs: torch.Tensor, hidden: torch.Tensor, c: Any
    ) -> tuple[torch.Tensor, Any]:
        gates = inputs + hidden
        size = gates.shape[-1] // 4
        i_and_f = torch.sigmoid(gates[..., : 2 * size])
        g = torch.tanh(gates[..., 2 * size : 3 * size])
        o = torch.sigmoid(gates[..., 3 * size :])
        c = i_and_f[..., size:] * c + i_and_f[..., :size] * g
        return o * torch.tanh(c), c

    return cell


def _gru(layer: Any) -> Cell:
    def cell(
        inputs: torch.Tensor, hidden: torch.Tensor, h: Any
    ) -> tuple[torch.Tensor, Any]:
        r_x, z_x, n_x = inputs.chunk(3, -1)
        r_h, z_h, n_h = hidden.chunk(3, -1)
        r, z = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
        new = torch.tanh(n_x + r * n_h)
        h = new + z * (h - new)
        return h, h

    return cell


def _rnn(layer: Any) -> Cell:
    function = torch.tanh if layer.nonlinearity == "tanh" else torch.relu

    def cell(
        inputs: torch.Tensor, hidden: torch.Tensor, _: Any
    ) -> tuple[torch.Tensor, Any]:
        h = function(inputs + hidden)
        return h, h

    return cell


_CELLS: dict[type[nn.Module], Callable[[Any], Cell]] = {
    nn.LSTM: _lstm,
    nn.GRU: _gru,
    nn.RNN: _rnn,
}
