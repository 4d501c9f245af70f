"""The work of one operation, from the shapes of its arguments and its result.

A multiplication and an addition are two FLOPs. The backward pass of a product costs
the forward pass once for each factor that needs a gradient: the first layer of a model
does without the gradient of its input. Bytes are those of operands and results, each
read or written once; what a cache saves is not counted.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import torch


class Work(NamedTuple):
    """The work of one operation, in both passes."""

    flops_forward: int = 0
    flops_backward: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    calls: int = 0


def nbytes(value: Any) -> int:
    """Returns the bytes of a tensor, or of all in a sequence; 0 for anything else."""
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, list | tuple):
        return sum(map(nbytes, value))
    return 0


def needs_gradient(value: Any) -> bool:
    """Returns whether a gradient flows into this argument."""
    return isinstance(value, torch.Tensor) and value.requires_grad


def tensors(values: Any) -> list[torch.Tensor]:
    """Returns all tensors among these arguments, those in sequences too."""
    if isinstance(values, torch.Tensor):
        return [values]
    if isinstance(values, dict):
        values = list(values.values())
    if isinstance(values, list | tuple):
        return [found for value in values for found in tensors(value)]
    return []


def product(left: Any, right: Any, out: torch.Tensor, flops: int) -> Work:
    """Returns the work of a product of two tensors, such as x·Wᵀ.

    Args:
        left: the first factor.
        right: the second one.
        out: the result.
        flops: of the forward pass.
    """
    x, w, y = nbytes(left), nbytes(right), nbytes(out)
    read, written, calls, backward = x + w, y, 1, 0
    for factor, other, size in ((left, w, x), (right, x, w)):
        if needs_gradient(factor):  # dy and the other factor make its gradient
            read += y + other
            written += size
            backward += flops
            calls += 1
    return Work(flops, backward, read, written, calls)


def elementwise(
    args: Any, out: Any, per_value: int = 1, backward_per_value: int | None = None
) -> Work:
    """Returns the work of an operation on each value by itself.

    Args:
        args: the operands.
        out: the result.
        per_value: FLOPs for each value of the larger of operands and results.
        backward_per_value: the same in the backward pass; None: as many.
    """
    given, made = tensors(args), tensors(out)
    values = max([t.numel() for t in [*given, *made]], default=0)
    x, y = nbytes(given), nbytes(made)
    work = Work(per_value * values, 0, x, y, 1)
    if not any(map(needs_gradient, given)):
        return work
    back = per_value if backward_per_value is None else backward_per_value
    own = sum(nbytes(t) for t in given if needs_gradient(t))
    return work._replace(
        flops_backward=back * values,
        bytes_read=x + y + x,  # dy, and what the forward pass saw
        bytes_written=y + own,
        calls=2,
    )


def plus(one: Work, two: Work) -> Work:
    """Returns the sum of two works."""
    return Work(*(a + b for a, b in zip(one, two, strict=True)))


# ------------------------------------------------------------------------ one by one

Rule = Callable[[Sequence[Any], Mapping[str, Any], Any], Work]


def linear(args: Sequence[Any], named: Mapping[str, Any], out: Any) -> Work:
    """Counts x·Wᵀ + b: 2 FLOPs for each weight and row."""
    x, weight, *rest = args
    bias = rest[0] if rest else named.get("bias")
    work = product(x, weight, out, 2 * out.numel() * weight.shape[-1])
    return plus(work, _bias(bias, out))


def convolution(args: Sequence[Any], named: Mapping[str, Any], out: Any) -> Work:
    """Counts a convolution: 2 FLOPs an output value, input channel and kernel place."""
    x, weight, *rest = args
    bias = rest[0] if rest else named.get("bias")
    work = product(x, weight, out, 2 * out.numel() * prod(weight.shape[1:]))
    return plus(work, _bias(bias, out))


def deconvolution(args: Sequence[Any], named: Mapping[str, Any], out: Any) -> Work:
    """Counts a transposed convolution: 2 FLOPs an input value and kernel place."""
    x, weight, *rest = args
    bias = rest[0] if rest else named.get("bias")
    work = product(x, weight, out, 2 * x.numel() * prod(weight.shape[1:]))
    return plus(work, _bias(bias, out))


def _bias(bias: Any, out: torch.Tensor) -> Work:
    """Counts the sum with a bias, which the product's kernel does on the way."""
    if bias is None:
        return Work()
    forward = Work(out.numel(), 0, nbytes(bias), 0, 0)
    if not needs_gradient(bias):
        return forward
    return plus(forward, Work(0, out.numel(), nbytes(out), nbytes(bias), 1))


def matmul(args: Sequence[Any], named: Mapping[str, Any], out: Any) -> Work:
    """Counts a product of matrices, or of stacks of them."""
    left, right = args[-2:]
    return product(left, right, out, 2 * out.numel() * left.shape[-1])


def attention(args: Sequence[Any], named: Mapping[str, Any], out: Any) -> Work:
    """Counts softmax(Q·Kᵀ)·V over heads: two products, and 5 FLOPs a score."""
    missing = ("query", "key", "value")[len(args) :]
    query, key, value = [*args, *(named[name] for name in missing)][:3]
    scores = prod(query.shape[:-1]) * key.shape[-2]
    flops = 2 * scores * (query.shape[-1] + value.shape[-1])
    inputs = nbytes([query, key, value])
    work = Work(flops + 5 * scores, 0, inputs, nbytes(out), 3)
    if not any(map(needs_gradient, (query, key, value))):
        return work
    back = 2 * flops + 5 * scores
    read = inputs + nbytes(out)
    return plus(work, Work(0, back, read, inputs, 5))


def multi_head(args: Sequence[Any], named: Mapping[str, Any], out: Any) -> Work:
    """Counts ``nn.MultiheadAttention``: its projections, and its heads.

    Inputs are (length, batch, width), as the layer passes them on.
    """
    query, key, _, width, heads, weight = args[:6]
    queries, keys = query.numel() // width, key.numel() // width
    scores = queries * key.shape[0]
    products = 4 * queries * width**2 + 4 * keys * width**2 + 4 * scores * width
    soft = 5 * heads * scores
    work = Work(products + soft, 0, nbytes(args), nbytes(out) + 4 * heads * scores, 8)
    if not needs_gradient(weight):
        return work
    back = Work(0, 2 * products + soft, *work[2:])
    return plus(work, back)


def embedding(args: Sequence[Any], named: Mapping[str, Any], out: Any) -> Work:
    """Counts rows of a table; the gradient is a table, which is zero in other rows."""
    table = max(tensors(args), key=lambda t: t.is_floating_point())
    work = Work(0, 0, nbytes(out), nbytes(out), 1)
    if not needs_gradient(table):
        return work
    back = Work(0, out.numel(), 2 * nbytes(out), nbytes(table) + nbytes(out), 2)
    return plus(work, back)


# What a step of a recurrent layer does beside its two products, for each node of a
# layer: FLOPs, and operations that torch starts on a CPU.
_GATES = {"lstm": (4, 20, 12), "gru": (3, 15, 10), "rnn_tanh": (1, 3, 3)}


def recurrent(kind: str) -> Rule:
    """Returns the rule of an LSTM, a GRU or a plain recurrent layer.

    Args:
        kind: ``lstm``, ``gru`` or ``rnn_tanh``.
    """
    gates, flops_a_node, starts = _GATES[kind]

    def rule(args: Sequence[Any], named: Mapping[str, Any], out: Any) -> Work:
        x, weights = args[0], [t for t in tensors(args[2:]) if t.dim() == 2]
        batches = x.shape[0] * x.shape[1]
        by_time = 0 if args[-1] is True else 1  # batch_first is the last argument
        steps = x.shape[1 - by_time]
        work, first = Work(), True
        for place in range(0, len(weights), 2):
            inputs, own = weights[place], weights[place + 1]
            nodes = own.shape[1]
            into = 2 * batches * inputs.numel()
            within = 2 * batches * own.numel()
            extra = flops_a_node * batches * nodes
            given = 4 * batches * inputs.shape[1]
            state = 4 * batches * nodes
            read = given + nbytes(inputs) + steps * nbytes(own) + state
            written = (gates + 2) * state
            work = plus(
                work, Work(into + within + extra, 0, read, written, 1 + steps * starts)
            )
            if needs_gradient(own):
                needs_input = needs_gradient(x) or not first
                back = into * (1 + needs_input) + 2 * within + extra
                work = plus(
                    work,
                    Work(
                        0,
                        back,
                        2 * read + written,
                        written + nbytes([inputs, own]) * 2 + given * needs_input,
                        3 + steps * starts,
                    ),
                )
            first = False
        return work

    return rule


def values(per_value: int, backward_per_value: int | None = None) -> Rule:
    """Returns the rule of an operation on single values.

    Args:
        per_value: FLOPs in the forward pass.
        backward_per_value: in the backward pass; None: as many.
    """

    def rule(args: Sequence[Any], named: Mapping[str, Any], out: Any) -> Work:
        return elementwise((args, dict(named)), out, per_value, backward_per_value)

    return rule


def nothing(args: Sequence[Any], named: Mapping[str, Any], out: Any) -> Work:
    """Counts a view of values that are there: no FLOP, no byte."""
    return Work()
