"""A helper process that compiles the kernels of a training step on a new machine.

Without it, kernels are compiled one after the other on one core when they are first called, which
takes some 20 seconds. The helper process compiles them in the opposite order, from the last one of
a step to the first, and keeps them on disk, where this process finds them.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from entity_env.errors import EntityEnvError
from entity_env.spaces import ActionSpace, ObsSpace
from entity_env.workers.messages import pickled
from ppo_trainer.machine.helper_process import read_task, start_helper
from ragged_net import EntityBatch, NetConfig, RaggedNet, RaggedTensor, kernels
from ragged_net.actors import Actors
from ragged_net.heads import head_kind

__all__ = ["compiling_ahead", "main"]

_START = "from ppo_trainer.machine.compile_ahead import main; main()"
_FILLING = ("embed", "layers", "attention", "block", "choose", "select")
"""Modules whose kernels return nothing and only fill arrays, so that a step runs without them."""


@contextlib.contextmanager
def compiling_ahead(
    obs_space: ObsSpace,
    action_space: Mapping[str, ActionSpace],
    config: NetConfig | None = None,
    value_config: NetConfig | None = None,
) -> Iterator[None]:
    """Let another process compile the kernels of a ``RaggedNet`` with these arguments meanwhile.

    It changes no result. If the process cannot run, everything is compiled here.
    """
    process = None
    with contextlib.suppress(OSError, EntityEnvError):
        arguments = obs_space, dict(action_space), config, value_config
        process = start_helper(_START, pickled("the network's spaces", arguments))
    try:
        yield
    finally:
        if process is not None:
            process.kill()
            process.communicate()


def main() -> None:
    """Read the arguments of a ``RaggedNet`` and compile its kernels, as the helper process."""
    arguments = read_task()
    for compile_kernel in reversed(_postponed(lambda: _step(RaggedNet(*arguments)))):
        compile_kernel()


def _postponed(step: Callable[[], None]) -> list[Callable[[], object]]:
    """Return functions that compile the kernels of ``step``, which runs without them."""
    is_kept = kernels.load("jit").is_kept
    compiles: list[Callable[[], object]] = []

    def postpone(compile_kernel: Callable[[Any], object]) -> Callable[[Any], object]:
        def postponed(signature: Any) -> Callable[..., None]:
            compiles.append(functools.partial(compile_kernel, signature))
            return lambda *arguments: None

        return postponed

    for module in map(kernels.load, _FILLING):
        for kernel in filter(is_kept, vars(module).values()):
            kernel.compile = postpone(kernel.compile)
    step()
    return compiles


def _step(net: RaggedNet) -> None:
    """Run a pass and a gradient on one frame with an entity of each type and all actions."""
    once = torch.tensor([0, 1])
    entities = {
        name: RaggedTensor(torch.zeros(1, len(entity.features)), once)
        for name, entity in net.obs_space.entities.items()
    }
    first, after_all = (RaggedTensor(torch.tensor([i]), once) for i in (0, len(entities)))
    actions: dict[str, Actors] = {}
    given: dict[str, torch.Tensor] = {}
    for name, space in net.action_space.items():
        actor = after_all if space.is_global else first
        actions[name], given[name] = head_kind(space).example(actor, space)
    batch = EntityBatch(
        entities, torch.zeros(1, len(net.obs_space.global_features)), actions=actions
    )
    # Trusted, because arrays that no kernel has filled are not checked.
    output = net(batch, given=given, trusted=True)
    parts = [
        part for action in output.actions.values() for part in (action.log_prob, action.entropy)
    ]
    torch.cat([output.value, *parts]).sum().backward()  # type: ignore[no-untyped-call]
