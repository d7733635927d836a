"""A network as an agent, which plays many rows as one batch, without gradients."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from entity_env import VecObs
from entity_env.agent import SpacedAgent
from entity_env.batching.ragged import ActionBuffer
from entity_env.errors import DAMAGES, StateError
from ppo_trainer.experience.acting import autocast, check_output
from ppo_trainer.experience.row_memory import RowMemory
from ppo_trainer.machine.torch_state import usual_torch
from ppo_trainer.runs.load_run import load_net
from ragged_net import EntityBatch, NetOutput, RaggedNet
from ragged_net.config import check_sharpness

__all__ = ["NetworkAgent", "copy_beside"]

T = TypeVar("T")


class NetworkAgent(SpacedAgent):
    """An agent that plays with a network; changes of its weights take effect at once.

    Args:
        net: The network.
        seed: Seed of the random numbers.
        greedy: True to take the most likely choices instead of drawing.
        temperature: Divisor of the logits.
        top_k: Number of most likely choices among which to draw; 0 for all choices.
        precision: ``TrainConfig.precision``.
        generator: Random number generator on the network's device, which replaces ``seed``.
    """

    def __init__(
        self,
        net: RaggedNet,
        *,
        seed: int = 0,
        greedy: bool = False,
        temperature: float = 1.0,
        top_k: int = 0,
        precision: Literal["float32", "bfloat16"] = "float32",
        generator: torch.Generator | None = None,
    ) -> None:
        check_sharpness(temperature, top_k)
        super().__init__(net.obs_space, net.action_space)
        self.net, self.greedy, self.precision = net, greedy, precision
        self.temperature, self.top_k = temperature, top_k
        self._device = next(net.parameters()).device
        if generator is None:
            generator = torch.Generator(self._device).manual_seed(seed)
        self._generator = generator
        self._memory: RowMemory | None = None

    @classmethod
    @usual_torch()
    def of_run(
        cls, run: str | Path, *, seed: int = 0, greedy: bool = False, device: str = "auto"
    ) -> NetworkAgent:
        """Return the network of a run's newest checkpoint, or of ``<run>/best``, as an agent.

        Raises:
            RunFolderError: The folder is not a run, or is an old one without saved spaces.
            CheckpointError: There is no checkpoint, or it is damaged.
        """
        loaded = load_net(run, device)
        return cls(loaded.net, seed=seed, greedy=greedy, precision=loaded.config.precision)

    def __deepcopy__(self, memo: dict[int, Any]) -> NetworkAgent:
        """Return an agent that shares the network, and has its own random numbers and memory."""
        return copy_beside(self, self.net, memo)

    def seed(self, seed: int) -> None:
        """Seed the random numbers."""
        self._generator.manual_seed(seed)

    def act_rows(self, obs: VecObs) -> Mapping[str, ActionBuffer]:
        """Return the actions of the rows that must act; each row has its own memory state."""
        return self.output(obs).actions_for(obs)

    @torch.no_grad()
    def output(self, obs: VecObs) -> NetOutput:
        """Return the network's output for the rows that must act, with drawn choices."""
        if self._memory is None:
            self._memory = RowMemory(self.net, len(obs))
        memory = self._memory
        memory.cut(obs.done)
        with autocast(self._device, self.precision):
            output = self.net(
                EntityBatch.from_obs(obs, self._device),
                memory=memory.of(obs.rows),
                generator=self._generator,
                greedy=self.greedy,
                temperature=self.temperature,
                top_k=self.top_k,
            )
        memory.keep(obs.rows, output.memory)
        return check_output(output)

    def reset(self) -> None:
        """Clear the memory states of all rows."""
        self._memory = None

    def get_state(self) -> dict[str, Any]:
        """Return the random numbers and the memory states as JSON values."""
        states: Tensor | None = None if self._memory is None else self._memory.states
        return {
            "generator": bytes(self._generator.get_state().tolist()).hex(),
            "rows": 0 if states is None else len(states),
            "memory": None if states is None else states.tolist(),
        }

    def set_state(self, state: Any) -> None:
        """Restore a state of ``get_state``.

        Raises:
            StateError: The state is damaged or of another network.
        """
        try:
            drawn = torch.tensor(list(bytes.fromhex(state["generator"])), dtype=torch.uint8)
            self._generator.set_state(drawn)
            self._memory = None
            if state["memory"] is not None:
                self._memory = RowMemory(self.net, int(state["rows"]))
                kept = torch.tensor(state["memory"], dtype=torch.float32)
                if self._memory.states is None or kept.shape != self._memory.states.shape:
                    raise ValueError("the memory states are those of another network")
                self._memory.states = kept.to(self._device)
        except (*DAMAGES, RuntimeError) as error:
            raise StateError(f"the saved state of an agent is damaged: {error}") from error


def copy_beside(agent: T, shared: object, memo: dict[int, Any]) -> T:
    """Return a deep copy of an agent that shares one of its parts, such as the network."""
    own = copy.copy(agent)
    memo |= {id(agent): own, id(shared): shared}
    vars(own).update(copy.deepcopy(vars(agent), memo))
    return own
