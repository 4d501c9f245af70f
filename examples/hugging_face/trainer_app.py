"""A Trainer that was there before, and the two lines that let it join a federation."""

import numpy as np
from transformers import Trainer, TrainingArguments

import latecomer
from examples.hugging_face.app import fresh
from examples.hugging_face.text import split


def samples(rows):
    return [{"input_ids": row, "labels": row} for row in rows.astype(np.int64)]


train, test = map(samples, split("email"))
trainer = Trainer(
    model=fresh(),
    args=TrainingArguments("out", per_device_train_batch_size=8, report_to="none"),
    train_dataset=train,
    eval_dataset=test,
)
workload = latecomer.patch(trainer)
