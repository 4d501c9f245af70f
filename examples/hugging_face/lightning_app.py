"""A LightningModule and its Trainer, and the line that lets them join."""

import lightning
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import latecomer
from latecomer.data import digits


class Digits(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(64, 10)

    def training_step(self, batch, place):
        return cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch, place):
        right = self.net(batch[0]).argmax(1) == batch[1]
        self.log("accuracy", right.float().mean())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 0.01)


class Data(lightning.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(rows("train"), batch_size=16, shuffle=True)

    def val_dataloader(self):
        return DataLoader(rows("test"), batch_size=256)


def rows(split):
    x, y = digits(split)
    return TensorDataset(torch.tensor(x), torch.tensor(y).long())


trainer = lightning.Trainer(accelerator="cpu", logger=False)
workload = latecomer.patch(trainer, Digits(), Data())
