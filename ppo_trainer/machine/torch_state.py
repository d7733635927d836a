"""The global settings of torch that the trainer relies on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

__all__ = ["default_torch_state"]


@contextmanager
def default_torch_state() -> Iterator[None]:
    """Give torch its default settings within a context or decorated function.

    New tensors are float32 on the CPU, gradients are enabled, and autocast is off, for environments
    in this process, too. Numbers that are drawn from torch's own CPU generator do not advance it
    for the caller.
    """
    dtype = torch.get_default_dtype()
    with ExitStack() as usual:
        if torch.get_default_device().type != "cpu":  # setting it slows down all operations
            usual.enter_context(torch.device("cpu"))
        usual.enter_context(torch.inference_mode(False))
        usual.enter_context(torch.enable_grad())
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                usual.enter_context(torch.autocast(kind, enabled=False))
        usual.enter_context(torch.random.fork_rng(devices=[]))
        torch.set_default_dtype(torch.float32)
        usual.callback(torch.set_default_dtype, dtype)
        yield
