"""The gradients of many models of one module, for the stacks of an engine."""

import operator
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import nn

from fedcore.arrays import as_numpy
from fedcore.clients import Taken
from fedcore.errors import ModelError, NotStackableError
from fedcore.model import Steps
from fedcore.params import ParamSpec
from fedcore.remembered import is_looked_at
from fedcore.rng import Key, seed_global
from fedcore.typing import Array, Indices, Vector
from fedcore.user_code import out_of_memory
from fedtorch.devices import find_device
from fedtorch.raised import place_of
from fedtorch.remembered import draws_on
from fedtorch.stacked.rows import Batch, Rows
from fedtorch.stacked.vmapped import Vmapped
from fedtorch.stacked.ways import choose, copy_loss, copy_module, first_sentence
from fedtorch.tensors import across, first, map_tensors, to_targets, to_tensor
from fedtorch.whole import to_training

# Bytes of activations of the models that are computed together: they stay in cache,
# or in a few times as much where a step has more to do beside them.
GROUP, GROUP_ELSEWHERE = 4 << 20, 4 << 30  # on a CPU, and on other devices
MOST_VIEWS = 1024  # of the parts of a stack, remembered
CLOSE = 1e-3  # of a gradient's norm: what two orders of summation may differ by
Gradient = Callable[[Any, Any, Any], tuple[float, Any]]
LookAt = Callable[[Any, Any, Any], None]


class Stacked:
    """The gradients of many models of one module's architecture; a ``StackedModel``."""

    def __init__(
        self,
        module: nn.Module,
        spec: ParamSpec,
        loss: Callable[[Any, Any], torch.Tensor],
        one_by_one: Gradient,
        device: str = "cpu",
        *,
        look: LookAt | None = None,
        fixed: tuple[str, ...] = (),
        local_L: Vector | None = None,
    ) -> None:
        """Chooses the way that the gradients are computed.

        Args:
            module: its frozen parameters and buffers are shared and never written to.
            spec: the parameters that are trained.
            loss: ``loss(output, target)``, the mean over a batch.
            one_by_one: the gradient of one model, on the CPU; asked once at most, to
                check a graph against it.
            device: where torch computes.
            look: computes a step of one model, and checks that the user's code does
                not remember it; called at some steps. None: no code is the user's.
            fixed: layers that use frozen batch statistics in training.
            local_L: the first values of what never leaves a client.

        Raises:
            ConfigError: the device is not here.
            NotStackableError: it can only be trained one by one.
        """
        there, loss = find_device(device), copy_loss(loss)
        self._device, self._on_cpu = there, there.type == "cpu"
        self._module = to_training(copy_module(module).to(there), fixed)
        self.buffers, self.local_L, spec = spec.in_training, local_L, spec.whole
        self._spec, self._loss, self._one_by_one = spec, loss, one_by_one
        self._look, self._steps = look, 0
        self._group = GROUP if self._on_cpu else GROUP_ELSEWHERE
        chosen = choose(self._module, spec, loss, there)
        self._way, self._sure, self._compiled = chosen
        self._tried = False
        self._w_MD = torch.empty(0, spec.dim, device=there)
        self._g_ND = torch.empty(0, spec.dim, device=there)
        self._views: dict[tuple[int, int], Rows] = {}

    @property
    def how(self) -> str:
        """The method that computes the gradients, in words for the log."""
        compiled = ", all steps of a client in a compiled loop"
        return self._way.words + (compiled if self._compiled else "")

    def seed(self, key: Key) -> None:
        """Seeds dropout and the like, and global generators, for one stack."""
        seed_global(key)
        if self._on_cpu:
            # torch.manual_seed looks for every other device: .2 ms a call.
            torch.default_generator.manual_seed(key.seed())
        else:
            torch.manual_seed(key.seed())

    def gradient(
        self, w_ND: Array, x_NB: Any, y_NB: Any, sizes_N: Indices
    ) -> tuple[Array, Array]:
        """Returns the mean losses (N,) and their gradients (N, D).

        The gradients' array is valid until the next call. What a single model raises
        is what it raises outside of a stack.

        Raises:
            NotStackableError: in the first call: the module does what ``vmap`` cannot.
        """
        n = len(w_ND)
        x, y = self._here(to_tensor(x_NB)), self._here(to_targets(y_NB))
        batch = Batch(np.asarray(sizes_N), first(x).shape[1], self._device)
        if self._g_ND.shape[0] < n:
            self._g_ND = torch.empty(n, self._spec.dim, device=self._device)
            self._views.clear()
        if self._look is not None:
            self._look_at(w_ND, x, y, batch)
        if not self._tried:
            self._try(w_ND, x, y, batch)
        try:
            losses = self._run(w_ND, x, y, batch)
        except Exception as error:
            if n == 1 and not out_of_memory(error):
                self._ask_the_user(w_ND, x, y, batch)
            raise
        g_ND = self._g_ND[:n]
        if not isinstance(w_ND, torch.Tensor):
            return losses, (g_ND if self._on_cpu else g_ND.cpu()).numpy()
        return torch.from_numpy(losses).to(self._device), g_ND

    def descend(self, steps: Steps) -> Taken | None:
        """Takes all steps in the compiled loop, if the module is a small network."""
        if self._compiled is None:
            return None
        taken = self._compiled.descend(steps)
        if taken is not None and self._look is not None and steps.sizes_NS[0, 0]:
            rows = steps.rows_NSB[0, 0, : steps.sizes_NS[0, 0]]
            x, y = (to_tensor(each)[rows] for each in (steps.x, steps.y))
            batch = Batch(steps.sizes_NS[:1, 0], len(rows), self._device)
            self._look_at(steps.start_ND, x[None], to_targets(y)[None], batch)
        return taken

    def _look_at(self, w_ND: Array, x: Any, y: Any, batch: Batch) -> None:
        """Checks, at some steps, that user code does not remember one of them.

        Raises:
            ModelError: it does.
        """
        self._steps += 1
        if self._look is None or not is_looked_at(self._steps):
            return
        restore = draws_on(self._device)
        try:
            self._look(*self._own_step(w_ND, x, y, batch, 0))
        except ModelError:
            self._steps -= 1  # so do the next ones
            raise
        finally:
            restore()

    def _here(self, data: Any) -> Any:
        return data if self._on_cpu else across(data, self._device)

    def _run(self, w_ND: Array, x: Any, y: Any, batch: Batch) -> Any:
        """Takes a step of every model, as many together as fit in the cache."""
        n = batch.count
        many = self._together(w_ND, x, y, batch)
        if many >= n:
            found = self._way.step(self._rows(w_ND, 0, n), x, y, batch)
            return found if isinstance(found, np.ndarray) else found.cpu().numpy()
        losses = np.empty(n, np.float32)
        if many == 1 and self._way.overhead > 1 and self._on_cpu:
            for row in range(n):  # nothing is stacked: without the way's own work
                losses[row], g_D = self._one(w_ND, x, y, batch, row)
                self._g_ND[row] = torch.from_numpy(g_D)
            return losses
        for start in range(0, n, many):
            part = slice(start, min(n, start + many))
            found = self._part(w_ND, x, y, batch, part)
            losses[part] = found if isinstance(found, np.ndarray) else found.cpu()
        return losses

    def _part(self, w_ND: Array, x: Any, y: Any, batch: Batch, part: slice) -> Any:
        """Takes a step of some of the models."""
        return self._way.step(
            self._rows(w_ND, part.start, part.stop),
            map_tensors(x, operator.itemgetter(part)),
            map_tensors(y, operator.itemgetter(part)),
            batch.part(part),
        )

    def _together(self, w_ND: Array, x: Any, y: Any, batch: Batch) -> int:
        """Returns how many models' activations fit in the cache.

        The number depends on shapes alone, since random draws depend on it.
        """
        per_sample, shape = self._way.per_sample, first(x).shape[2:]
        if per_sample is None:
            return batch.count
        if shape not in per_sample:
            with self._generator_kept():
                self._part(w_ND, x, y, batch, slice(0, 1))
        group = self._group * (self._way.overhead if self._on_cpu else 1)
        return max(1, int(group / (per_sample[shape] * batch.width + 1)))

    def _generator_kept(self) -> AbstractContextManager[None]:
        return torch.random.fork_rng([] if self._on_cpu else [self._device])

    def _rows(self, w_ND: Array, start: int, end: int) -> Rows:
        """Copies some models to memory of which all views are known.

        The copy takes a fraction of the time of a step; to make views of other memory
        would take the time of several steps.
        """
        rows = self._views.get((start, end))
        if rows is None:
            if len(self._views) >= MOST_VIEWS:
                self._views.clear()
            if self._w_MD.shape[0] < end - start:
                shape = (end - start, self._spec.dim)
                self._w_MD = torch.empty(shape, device=self._device)
                self._views.clear()
            rows = Rows(self._w_MD[: end - start], self._g_ND[start:end])
            self._views[start, end] = rows
        if isinstance(w_ND, torch.Tensor):
            rows.w_ND.copy_(w_ND[start:end])
        elif self._on_cpu:
            np.copyto(rows.w, w_ND[start:end])
        else:
            rows.w_ND.copy_(torch.from_numpy(w_ND[start:end]))
        return rows

    def _try(self, w: Array, x: Any, y: Any, batch: Batch) -> None:
        """Tries the first step, and another way if this one fails.

        Raises:
            NotStackableError: all ways fail, though the models one by one do not.
        """
        if not isinstance(self._way, Vmapped):
            try:
                with self._generator_kept():
                    self._run(w, x, y, batch)
                if not self._sure and not self._right(w, x, y, batch):
                    raise ValueError("its graph has other gradients")
            except Exception as error:
                if out_of_memory(error):  # another way would not need less
                    raise
                self._ask_the_user(w, x, y, batch)
                why = f"layer by layer failed: {first_sentence(error)}"
                self._way = Vmapped(self._module, self._spec, self._loss, why)
                self._compiled = None
        if isinstance(self._way, Vmapped):
            try:
                with self._generator_kept():
                    self._run(w, x, y, batch)
            except Exception as error:
                if out_of_memory(error):
                    raise
                self._ask_the_user(w, x, y, batch)
                place, why = place_of(error, self._module), first_sentence(error)
                raise NotStackableError(
                    f"{place} cannot be stacked by torch.func.vmap ({why}); "
                    "its clients are computed one by one"
                ) from error
        self._tried = True

    def _ask_the_user(self, w: Array, x: Any, y: Any, batch: Batch) -> None:
        """Raises the error that one model by itself has, if it has one."""
        with self._generator_kept():
            self._one(w, x, y, batch, 0)

    def _one(self, w: Array, x: Any, y: Any, batch: Batch, row: int) -> Any:
        """Returns the gradient of one model by itself."""
        return self._one_by_one(*self._own_step(w, x, y, batch, row))

    def _own_step(
        self, w: Array, x: Any, y: Any, batch: Batch, row: int
    ) -> tuple[Any, Any, Any]:
        """Returns the weights and the batch of one model."""
        size = int(batch.sizes_N[row])

        def own(tensor: torch.Tensor) -> torch.Tensor:
            return tensor[row, :size].cpu()

        return as_numpy(w[row]), map_tensors(x, own), map_tensors(y, own)

    def _right(self, w: Array, x: Any, y: Any, batch: Batch) -> bool:
        """Returns whether the model with most padding has its gradient when alone."""
        row = int(np.argmin(batch.sizes_N))
        with self._generator_kept():
            _, g_D = self._one(w, x, y, batch, row)
            once = g_D.copy()
            _, g_D = self._one(w, x, y, batch, row)
        if not np.array_equal(once, g_D):
            return True  # it draws at random
        apart = float(np.linalg.norm(self._g_ND[row].cpu().numpy() - once))
        return apart <= CLOSE * float(np.linalg.norm(once)) + 1e-6
