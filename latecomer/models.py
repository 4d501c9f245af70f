"""Ready models for ``TorchWorkload``, small enough for devices; they need torch."""

from fedtorch.models import char_lstm as char_lstm
from fedtorch.models import cnn_1d as cnn_1d
from fedtorch.models import fed_avg_cnn as fed_avg_cnn
from fedtorch.models import lora_transformer as lora_transformer
from fedtorch.models import mlp as mlp
from fedtorch.models import res_net as res_net
from fedtorch.models import small_cnn as small_cnn
from fedtorch.models import softmax_regression as softmax_regression
