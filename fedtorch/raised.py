"""Names the layer in which torch raised an error during a step."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from fedcore.errors import UserCodeError

_ONE_SAMPLE = "Expected more than 1 value per channel"  # as torch begins


@contextmanager
def needing_batches(module: nn.Module) -> Iterator[None]:
    """Says in words that a layer cannot normalise a batch of one sample.

    Args:
        module: whose step is taken in the block.

    Raises:
        UserCodeError: that has happened.
    """
    try:
        yield
    except ValueError as error:
        if not str(error).startswith(_ONE_SAMPLE):
            raise
        raise UserCodeError(
            f"{place_of(error, module)} cannot normalise a batch of 1 sample: choose "
            "client.batch so that no client's last batch has 1 sample, or use "
            "nn.GroupNorm"
        ) from error


def place_of(error: BaseException, module: nn.Module) -> str:
    """Names the innermost layer that was running when the error was raised."""
    names = {id(layer): name for name, layer in module.named_modules()}
    found = ""
    trace = error.__traceback__
    while trace is not None:
        running = trace.tb_frame.f_locals.get("self")
        if isinstance(running, nn.Module) and id(running) in names:
            name = names[id(running)]
            kind = type(running).__name__
            found = f"layer {name!r} ({kind})" if name else f"module {kind}"
        trace = trace.tb_next
    return found or f"the loss or module {type(module).__name__}"
