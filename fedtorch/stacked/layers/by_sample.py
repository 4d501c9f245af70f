"""Padding, dropout and other layers that treat each sample by itself."""

from torch import nn

from fedtorch.stacked.layers.registry import register

register(
    nn.ZeroPad1d, nn.ZeroPad2d, nn.ConstantPad1d, nn.ConstantPad2d, nn.ReflectionPad1d,
    nn.ReflectionPad2d, nn.ReplicationPad1d, nn.ReplicationPad2d, nn.PixelShuffle,
    nn.PixelUnshuffle, nn.LocalResponseNorm, nn.Dropout, nn.Dropout1d, nn.Dropout2d,
    nn.AlphaDropout, nn.FeatureAlphaDropout,
    of_samples=(
        "pad", "pixel_shuffle", "dropout", "dropout1d", "dropout2d", "alpha_dropout",
    ),
)  # fmt: skip
