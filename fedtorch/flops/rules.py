"""Which rule counts which function of torch, by the function's name."""

from fedtorch.flops.work import (
    Rule,
    attention,
    convolution,
    deconvolution,
    embedding,
    linear,
    matmul,
    multi_head,
    nothing,
    recurrent,
    values,
)

_VIEWS = (
    "reshape view flatten unflatten transpose permute t T mT squeeze unsqueeze expand "
    "expand_as __getitem__ chunk split unbind narrow select movedim swapaxes view_as "
    "detach size dim numel shape __get__ __len__ is_floating_point ndim dtype device "
    "requires_grad __bool__ item tolist is_contiguous stride data_ptr is_complex "
    "is_nested __format__ __repr__ is_cuda layout names get_device __set__ "
    "unsafe_chunk unsafe_split tensor_split is_sparse is_quantized is_mkldnn _is_view"
)
_COPIES = (
    "contiguous clone to float cat concat stack repeat masked_fill where pad roll "
    "zeros ones full empty arange zeros_like ones_like full_like empty_like"
)
_ONE = (
    "relu relu_ threshold leaky_relu hardtanh relu6 add add_ __add__ __radd__ __iadd__ "
    "sub __sub__ __rsub__ mul mul_ __mul__ __rmul__ __imul__ div __truediv__ neg "
    "__neg__ abs dropout dropout1d dropout2d alpha_dropout sum mean max amax min clamp "
    "square maximum minimum argmax __pow__ pow __eq__ __gt__ __lt__"
)
_FEW = (
    "sigmoid tanh gelu silu elu selu celu softplus mish hardswish hardsigmoid exp log "
    "sqrt rsqrt sin cos erf softsign logsigmoid glu prelu"
)
_NORMS = "batch_norm layer_norm group_norm instance_norm rms_norm normalize norm"
_SOFT = "softmax log_softmax cross_entropy nll_loss logsumexp"
_LOSSES = (
    "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy "
    "binary_cross_entropy_with_logits kl_div poisson_nll_loss"
)
_POOLS = (
    "max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d "
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d "
    "adaptive_max_pool2d boolean_dispatch"
)

RULES: dict[str, tuple[str, Rule]] = {
    "linear": ("linear", linear),
    **{f"conv{n}d": ("convolution", convolution) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": ("convolution", deconvolution) for n in (1, 2, 3)},
    **dict.fromkeys(("matmul", "__matmul__", "bmm", "mm"), ("product", matmul)),
    "baddbmm": ("product", matmul),
    "addmm": ("product", matmul),
    "scaled_dot_product_attention": ("attention", attention),
    "multi_head_attention_forward": ("attention", multi_head),
    "embedding": ("embedding", embedding),
    **{name: (name, recurrent(name)) for name in ("lstm", "gru", "rnn_tanh")},
    **dict.fromkeys(_VIEWS.split(), ("view", nothing)),
    **{name: ("copy", values(0)) for name in _COPIES.split()},
    **{name: ("elementwise", values(1)) for name in _ONE.split()},
    **{name: ("elementwise", values(4)) for name in _FEW.split()},
    **{name: ("norm", values(7, 11)) for name in _NORMS.split()},
    **{name: ("softmax", values(5)) for name in _SOFT.split()},
    **{name: ("loss", values(3)) for name in _LOSSES.split()},
    **{name: ("pooling", values(1)) for name in _POOLS.split()},
}
"""The kind that a report shows, and the rule, by the name of the function."""

UNKNOWN = values(1)
"""What an operation without a rule counts: one FLOP for each value."""
