"""Handwritten digits with scikit-learn, which has a training loop of its own."""

import numpy as np
from sklearn.linear_model import SGDClassifier

from latecomer import Trained, Workload
from latecomer.data import digits
from latecomer.partitions import dirichlet


def initial(rng):
    return {"coef": np.zeros((10, 64)), "intercept": np.zeros(10)}


def classifier(params, **settings):
    sgd = SGDClassifier("log_loss", **settings)
    sgd.partial_fit(np.zeros((10, 64)), np.arange(10), classes=np.arange(10))
    sgd.coef_, sgd.intercept_ = (params[name].astype(float) for name in params)
    return sgd


def train(params, data, task):  # one pass over this client's data
    sgd = classifier(params, learning_rate="constant", eta0=task.lr, shuffle=False)
    sgd.partial_fit(data[0].astype(float), data[1])
    return Trained({"coef": sgd.coef_, "intercept": sgd.intercept_}, len(data[1]))


def train_data(client):
    x, y = digits("train")
    rows = dirichlet(y, clients=client.count, alpha=0.3, seed=0)[client.index]
    return x[rows], y[rows]


workload = Workload(
    initial=initial,
    train=train,
    evaluate=lambda params, x, y: {"accuracy": classifier(params).score(x, y)},
    train_data=train_data,
    test_data=lambda: digits("test"),
)
