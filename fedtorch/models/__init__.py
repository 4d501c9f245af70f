"""Ready models, small enough for devices; none keeps batch statistics.

Each function returns a fresh module, initialised at random, for ``TorchWorkload``.
"""

from fedtorch.models.char_lstm import char_lstm as char_lstm
from fedtorch.models.cnn_1d import cnn_1d as cnn_1d
from fedtorch.models.fed_avg_cnn import fed_avg_cnn as fed_avg_cnn
from fedtorch.models.lora_transformer import lora_transformer as lora_transformer
from fedtorch.models.mlp import mlp as mlp
from fedtorch.models.res_net import res_net as res_net
from fedtorch.models.small_cnn import small_cnn as small_cnn
from fedtorch.models.softmax import softmax_regression as softmax_regression
