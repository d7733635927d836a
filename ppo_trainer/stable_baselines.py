"""RaggedNet as the policy of Stable-Baselines3's PPO (extra ``sb3``).

    env = StableBaselinesVecEnv(rows, max_entities=room, max_actors=actors)
    PPO(RaggedPolicy, env, policy_kwargs=policy_settings(env, NetConfig(dim=32))).learn(100_000)

Padded observations are packed again: the network sees only existing entities, and chooses only
among allowed choices, so that ``MaskablePPO`` is not needed.
"""

from __future__ import annotations

from typing import Any

import torch
from stable_baselines3.common.policies import MultiInputActorCriticPolicy
from torch import Tensor

from entity_env.errors import SettingError
from entity_env.interop import StableBaselinesVecEnv
from entity_env.interop.padded_spaces import ActionSlots, PaddedSpaces
from ragged_net import (
    CategoricalActors,
    EntityBatch,
    NetConfig,
    NetOutput,
    RaggedNet,
    RaggedTensor,
    SelectActors,
)
from ragged_net.actors import Actors
from ragged_net.packing import from_padded

__all__ = ["RaggedPolicy", "policy_settings"]


def policy_settings(env: StableBaselinesVecEnv, config: NetConfig | None = None) -> dict[str, Any]:
    """Return the ``policy_kwargs`` of an algorithm that trains ``RaggedPolicy`` on ``env``.

    Args:
        env: Rows whose spaces are padded.
        config: Size and kind of the network, which must not have a memory.

    Raises:
        SettingError: The network has a memory, whose state Stable-Baselines3 does not keep.
    """
    config = config or NetConfig()
    if config.memory != "none":
        raise SettingError(
            "Stable-Baselines3's PPO keeps no state for a network with a memory",
            expected="memory='none'",
            received=repr(config.memory),
        )
    return {"padded": env.padded.padded_spaces, "config": config}


class RaggedPolicy(MultiInputActorCriticPolicy):
    """A policy that reads padded observations, and returns a number for each slot of an actor.

    The input statistics take in the observations of a rollout when the next one begins, so that the
    ratios of an update's first minibatch are 1.

    Args:
        padded: The padded spaces; see ``policy_settings``.
        config: Size and kind of the network.
    """

    net: RaggedNet

    def __init__(
        self, *arguments: Any, padded: PaddedSpaces, config: NetConfig, **settings: Any
    ) -> None:
        self._padded, self._config = padded, config
        self._seen: list[EntityBatch] = []
        super().__init__(*arguments, **settings)

    def _build(self, lr_schedule: Any) -> None:
        spaces = {action.name: action.space for action in self._padded.actions}
        self.net = RaggedNet(self._padded.obs_space, spaces, self._config)
        make: Any = self.optimizer_class
        self.optimizer = make(self.net.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        given = {"padded": self._padded, "config": self._config}
        return {**super()._get_constructor_parameters(), **given}

    def set_training_mode(self, mode: bool) -> None:
        """Set the mode, and update the input statistics between updates and rollouts."""
        super().set_training_mode(mode)
        if not mode and self._seen:
            self.net.update_statistics(EntityBatch.cat(self._seen))
            self._seen = []

    def forward(self, obs: Any, deterministic: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """Return actions (B, numbers), values (B, 1) and log-probabilities (B,) of a step."""
        frames = _Frames(obs, self._padded)
        self._seen.append(frames.batch)
        output = self.net(frames.batch, greedy=deterministic)
        actions = frames.numbers_of(output)
        return actions, output.value[:, None], frames.sum(output, "log_prob")

    def evaluate_actions(self, obs: Any, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return values (B, 1), and log-probabilities and entropies (B,) of ``actions``."""
        frames = _Frames(obs, self._padded)
        output = self.net(frames.batch, given=frames.given(actions.long()))
        log_prob, entropy = (frames.sum(output, what) for what in ("log_prob", "entropy"))
        return output.value[:, None], log_prob, entropy

    def predict_values(self, obs: Any) -> Tensor:
        """Return the values. Shape: (B, 1)."""
        return self.net.value(_Frames(obs, self._padded).batch)[:, None]

    def _predict(self, observation: Any, deterministic: bool = False) -> Tensor:
        frames = _Frames(observation, self._padded)
        return frames.numbers_of(self.net(frames.batch, greedy=deterministic))

    def get_distribution(self, obs: Any) -> Any:
        """Raise NotImplementedError, because frames have different numbers of actors.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("RaggedPolicy has no distribution object of Stable-Baselines3")


class _Frames:
    """Padded observations as a batch, and the places of its entities and actors.

    Attributes:
        batch: B frames.
    """

    def __init__(self, obs: dict[str, Tensor], padded: PaddedSpaces) -> None:
        self.padded, self.device = padded, next(iter(obs.values())).device
        self.frames = next(iter(obs.values())).shape[0]
        present = []
        entities = {}
        for name, entity in padded.obs_space.entities.items():
            room, width = padded.limits[name], len(entity.features)
            here = obs.get(f"{name}/present", self._zeros(room)).bool()
            # Padded observations leave out arrays of width 0.
            rows = obs.get(f"{name}/features", self._zeros(room, width)).float()
            entities[name] = from_padded(f"entity type {name!r}", rows, here)
            present.append(here)
        self.present = torch.cat([self._zeros(0).bool(), *present], 1)  # (B, S)
        self.index = self.present.cumsum(1) - 1  # index in the frame of the entity in each slot
        self.slot = (~self.present).long().argsort(dim=1, stable=True)  # slot of each entity
        self.taken: dict[str, Tensor] = {}
        actions = {action.name: self._actors(action, obs) for action in padded.actions}
        global_features = obs.get("global", self._zeros(0)).float()
        self.batch = EntityBatch(entities, global_features, {}, actions)

    def _zeros(self, *shape: int) -> Tensor:
        return torch.zeros(self.frames, *shape, device=self.device)

    def _actors(self, action: ActionSlots, obs: dict[str, Tensor]) -> Actors:
        shape = (action.count, action.choices)
        mask = obs.get(f"{action.name}/mask", self._zeros(*shape)).bool().view(self.frames, *shape)
        if action.space.is_global:
            taken = mask.any(2)  # (B, 1)
            index = self.present.sum(1, keepdim=True)  # after all entities
        else:
            slots = obs.get(f"{action.name}/actors", self._zeros(action.count) - 1).long()
            taken = (slots >= 0) & mask.any(2)
            index = self._at(self.index, slots.clamp_min(0))
        self.taken[action.name] = taken
        actors = from_padded(f"the actors of {action.name!r}", index, taken)
        if not action.space.selects:
            return CategoricalActors(actors, mask[taken])
        acts = taken.any(1, keepdim=True)
        targets = self.present & acts  # (B, S)
        actees = from_padded(f"the actees of {action.name!r}", self.index, targets)
        # Row by row these are the pairs of a frame, ordered by actor.
        pairs = mask[..., : targets.shape[1]][taken[:, :, None] & targets[:, None, :]]
        counts = taken.sum(1) * targets.sum(1)
        return SelectActors(actors, actees, RaggedTensor.from_lengths(pairs, counts))

    @staticmethod
    def _at(values: Tensor, places: Tensor) -> Tensor:
        """Return ``values`` (B, S) at ``places`` (B, K); zeros if there are no slots."""
        return values.gather(1, places) if values.shape[1] else torch.zeros_like(places)

    def numbers_of(self, output: NetOutput) -> Tensor:
        """Return the choice of each slot, 0 for empty slots. Shape: (B, numbers)."""
        parts = []
        for action in self.padded.actions:
            taken, chosen = self.taken[action.name], output.actions[action.name].chosen
            numbers = torch.zeros_like(taken, dtype=torch.int64)
            values = chosen.values
            if action.space.selects:
                values = self.slot[chosen.frame_ids(), values]
            numbers[taken] = values
            parts.append(numbers)
        return torch.cat(parts, 1)

    def given(self, numbers: Tensor) -> dict[str, Tensor]:
        """Return earlier choices, given by slots, as input of the network."""
        found = {}
        for action in self.padded.actions:
            columns = numbers[:, action.numbers]
            if action.space.selects:
                columns = self._at(self.index, columns)
            found[action.name] = columns[self.taken[action.name]]
        return found

    def sum(self, output: NetOutput, what: str) -> Tensor:
        """Return the sum of ``log_prob`` or ``entropy`` over the actors of frames. Shape: (B,)."""
        total = self._zeros()
        for name, action in output.actions.items():
            frames = self.batch.actions[name].actors.frame_ids()
            total = total.index_add(0, frames, getattr(action, what))
        return total
