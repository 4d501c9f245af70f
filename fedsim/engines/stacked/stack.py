"""The results of tasks that were computed together."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedcore.arrays import as_numpy, norms
from fedcore.errors import UserCodeError
from fedcore.labels import counts_array, counts_list
from fedcore.payloads import Layout, Payload, pack, unpack
from fedcore.protocol import LARGEST
from fedcore.stacks import StackedUpdates
from fedcore.trees import Arrays, load_tree, save_tree
from fedcore.typing import JSON, Vector
from fedcore.user_code import Failure


class Stack:
    """The results of tasks that were computed together, one in each row."""

    def __init__(self, updates: StackedUpdates, nbytes: int) -> None:
        count = len(updates.loss_N)
        self.delta_ND = updates.delta_ND
        self.counts, self.kept = updates.counts, updates.kept
        self.loss: list[float] = updates.loss_N.tolist()
        self.update_norm = norms(updates.delta_ND).tolist()
        self.memory_norm = [0.0] * count
        self.sound = [size <= LARGEST for size in self.update_norm]
        self.unusable: dict[int, str] = {}  # why rows that are not sound are not sent
        self.nbytes = [nbytes] * count
        self.codec = ["dense"] * count
        self.messages: list[Payload | None] = [None] * count  # None for the whole Δ
        self.residual: list[Vector | None] = [None] * count
        self.own: list[Vector | None] = [None] * count
        """The clients' own models, if controllers evaluate them."""
        self.failure: Failure | None = None
        """The error of the model or the loss in the only task of this stack."""

    @classmethod
    def failed(cls, failure: Failure) -> "Stack":
        """Returns the stack of one failed task."""
        nothing_ND = np.empty((1, 0), np.float32)
        stack = cls(StackedUpdates(nothing_ND, np.zeros(1), [None], [None]), 0)
        stack.failure, stack.sound = failure, [False]
        return stack

    def let_go(self) -> None:
        """Drops the updates if the messages hold everything that is needed."""
        if any(message is not None for message in self.messages):
            self.delta_ND = self.delta_ND[:0]

    def dump(self, row: int, name: str, arrays: Arrays) -> JSON:
        """Returns one row as JSON; its vectors go to ``arrays``."""
        if self.failure is not None:
            return {"failure": self.failure[1:]}
        message, residual_D = self.messages[row], self.residual[row]
        if not self.sound[row]:  # a worker does not send updates that are not used
            arrays[name] = np.empty(0, np.float32)
        elif message is None:
            arrays[name] = as_numpy(self.delta_ND[row])
        else:
            arrays[f"{name}.message"] = np.frombuffer(pack(message), np.uint8)
        if residual_D is not None:
            arrays[f"{name}.residual"] = as_numpy(residual_D)
        own_D = self.own[row]
        if own_D is not None:
            arrays[f"{name}.own"] = own_D
        return {
            "loss": self.loss[row],
            "update_norm": self.update_norm[row],
            "memory_norm": self.memory_norm[row],
            "sound": self.sound[row],
            "unusable": self.unusable.get(row, ""),
            "nbytes": self.nbytes[row],
            "codec": self.codec[row],
            "counts": counts_list(self.counts[row]),
            "kept": save_tree(self.kept[row], f"{name}.kept", arrays),
        }

    @classmethod
    def load(
        cls, saved: JSON, name: str, arrays: Mapping[str, Any], layout: Layout
    ) -> "Stack":
        """Restores a stack of the row that :meth:`dump` returned."""
        if "failure" in saved:
            return cls.failed(Failure(UserCodeError, *saved["failure"]))
        message = arrays.get(f"{name}.message")
        nothing_ND = np.empty((1, 0), np.float32)
        updates = StackedUpdates(
            arrays[name][np.newaxis] if message is None else nothing_ND,
            np.array([saved["loss"]]),
            [counts_array(saved["counts"])],
            [load_tree(None, saved["kept"], arrays)],
        )
        stack = cls(updates, saved["nbytes"])
        stack.update_norm = [saved["update_norm"]]
        stack.memory_norm = [saved["memory_norm"]]
        stack.sound, stack.codec = [saved["sound"]], [saved["codec"]]
        stack.unusable[0] = saved["unusable"]
        if message is not None:
            stack.messages = [unpack(message.tobytes(), layout)]
        residual_D = arrays.get(f"{name}.residual")
        stack.residual = [None if residual_D is None else residual_D.copy()]
        stack.own = [arrays.get(f"{name}.own")]
        return stack
