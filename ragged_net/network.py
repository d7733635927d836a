"""RaggedNet: a batch of entity lists -> actions, their log-probabilities, and values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from entity_env.spaces import (
    ActionSpace,
    GlobalCategoricalActionSpace,
    ObsSpace,
    SelectEntityActionSpace,
    check_action_space,
)
from ragged_net.actors import CategoricalActors, SelectActors
from ragged_net.batch import BatchReading, EntityBatch
from ragged_net.check import (
    Flags,
    check_actions,
    check_features,
    check_given,
    flag_actions,
)
from ragged_net.config import NetConfig
from ragged_net.errors import DeviceError, DtypeError, NetConfigError, check_kind
from ragged_net.heads.draw import ActionOutput, Draw
from ragged_net.heads.linear_heads import CategoricalHead, SelectEntityHead, ValueHead
from ragged_net.heads.pairs import Pairs
from ragged_net.model.encoder import Encoder
from ragged_net.model.layout import Layout
from ragged_net.model.read_rows import Encoded
from ragged_net.model.translation import Translator, frames_of
from ragged_net.ragged import RaggedTensor

__all__ = ["NetOutput", "RaggedNet"]


@dataclass(frozen=True, eq=False)
class NetOutput:
    """The result of a forward pass.

    Args:
        actions: An ActionOutput for each action of the action space.
        value: (B,) float32: the value of each frame.
    """

    actions: Mapping[str, ActionOutput]
    value: Tensor

    @staticmethod
    def cat(parts: Sequence[NetOutput]) -> NetOutput:
        """All frames of ``parts``, one after the other; they are those of one network."""
        names = parts[0].actions
        return NetOutput(
            {name: ActionOutput.cat([part.actions[name] for part in parts]) for name in names},
            torch.cat([part.value for part in parts]),
        )


class RaggedNet(nn.Module):
    """A policy and value network on lists of entities.

    Each frame ends with a global entity if the observation space has global features or the action
    space a global action. Log-probabilities, entropies and values are float32, under autocast too.

    Args:
        obs_space: Entity types and features.
        action_space: Action spaces by name.
        config: Size and kind of the network.
        value_config: Given, the value has a separate network of its own, which sees every entity.
            Otherwise the value head reads the policy's network, in which hidden entities see all
            and no visible entity sees a hidden one.

    Raises:
        RaggedNetError: A subclass for each way in which a batch does not fit the spaces.
    """

    def __init__(
        self,
        obs_space: ObsSpace,
        action_space: Mapping[str, ActionSpace],
        config: NetConfig | None = None,
        value_config: NetConfig | None = None,
    ) -> None:
        super().__init__()
        check_kind("the observation space", obs_space, ObsSpace)
        for where, sizes in (("config", config), ("value_config", value_config)):
            if sizes is not None:
                check_kind(where, sizes, NetConfig, hint="NetConfig(dim=64, layers=2)")
        self.obs_space, self.action_space = obs_space, check_action_space(action_space)
        self.config, self.value_config = config or NetConfig(), value_config
        self.with_global = bool(obs_space.global_features) or any(
            isinstance(space, GlobalCategoricalActionSpace) for space in self.action_space.values()
        )
        setting = self.config.translation
        if value_config is not None and value_config.translation != setting:
            raise NetConfigError(
                "the networks of policy and value see positions in different frames",
                expected=f"value_net.translation={setting!r}, that of net",
                received=repr(value_config.translation),
            )
        self.translation = (
            None if setting is None else Translator(obs_space, setting, self.with_global)
        )
        seen = obs_space if self.translation is None else self.translation.space
        self.encoder = Encoder(seen, self.with_global, self.config)
        # A list in the order of the action space: a ModuleDict refuses some action names.
        self.heads = nn.ModuleList(
            SelectEntityHead(self.config.dim)
            if isinstance(space, SelectEntityActionSpace)
            else CategoricalHead(self.config.dim, len(space))
            for space in self.action_space.values()
        )
        self.value_encoder = (
            None
            if value_config is None
            else Encoder(seen, self.with_global, value_config, only_means=True)
        )
        sizes = value_config or self.config
        self.value_head = ValueHead(sizes.dim, sizes.activation)

    def forward(
        self,
        batch: EntityBatch,
        *,
        given: Mapping[str, Tensor] | None = None,
        generator: torch.Generator | None = None,
        greedy: bool = False,
        trusted: bool = False,
    ) -> NetOutput:
        """Act on ``batch``.

        Args:
            batch: B frames.
            given: For each action (A,) int64: evaluate these choices (entity indices for a
                selection) instead of drawing any.
            generator: Draws the actions; torch's global one if None. On the batch's device.
            greedy: Take the likeliest choice instead of drawing.
            trusted: These frames, and the choices ``given``, come from earlier passes, which have
                looked at their numbers. Nothing then waits for the device, but for lengths that
                the CPU has never known.
        """
        with BatchReading(batch):
            return self._act(batch, Draw(given, generator, greedy, trusted))

    def _act(self, batch: EntityBatch, draw: Draw) -> NetOutput:
        given, generator = draw.given, draw.generator
        check_actions(batch, self.action_space)
        if given is not None:
            check_given(given, batch, self.action_space)
        if generator is not None:
            check_kind("the generator", generator, torch.Generator)
            if generator.device.type != batch.device.type:
                raise DeviceError(
                    "the generator is on another device than the batch",
                    expected=batch.device,
                    received=generator.device,
                )
        flags = None if draw.trusted else Flags()
        layout, hidden = self._arrange(batch, flags)
        pairs = {
            name: Pairs.of(actors)
            for name, actors in batch.actions.items()
            if isinstance(actors, SelectActors) and actors.actors.num_rows
        }
        if flags is not None:
            flag_actions(batch, layout, hidden, pairs, given, flags)
            flags.check()
        seen = self._seen(batch)
        alone = self.translation is not None and self.translation.each_actor
        encoded = self.encoder(seen, layout, hidden, () if alone else self._asked(batch, layout))
        rows, actions = iter(encoded.rows), {}
        for name, head in zip(self.action_space, self.heads, strict=True):
            actors = batch.actions[name]
            if not actors.actors.num_rows:
                actions[name] = draw.nobody(actors)
                continue
            if alone:
                rows = iter(self._each(batch, actors))
            if isinstance(actors, CategoricalActors):
                actions[name] = draw.categorical(name, actors, head(next(rows), actors.mask))
            else:
                own = _of_copies(actors, pairs[name]) if alone else pairs[name]
                dist = head(next(rows), next(rows), own)
                actions[name] = draw.select(name, actors, replace(dist, pairs=pairs[name]))
        if self.value_encoder is not None:
            encoded = self.value_encoder(seen, layout)
        return NetOutput(actions, self.value_head(encoded.means))

    def value(self, batch: EntityBatch) -> Tensor:
        """(B,) float32: the values of the frames, without acting; reads no action."""
        with BatchReading(batch):
            flags = Flags()
            layout, hidden = self._arrange(batch, flags)
            flags.check()
            seen = self._seen(batch)
            if self.value_encoder is None:
                encoded = self.encoder(seen, layout, hidden)
            else:
                encoded = self.value_encoder(seen, layout)
            values: Tensor = self.value_head(encoded.means)
            return values

    def update_statistics(self, batch: EntityBatch) -> None:
        """Add the features of ``batch`` to the input statistics; nothing else changes them.

        Raises:
            FeatureValueError: A feature that is not finite; all statistics are then untouched.
        """
        with BatchReading(batch):
            flags = Flags()
            check_features(batch, self.obs_space, self._device, flags)
            flags.check()
            seen = self._all_seen(batch)
            for part in seen:
                self.encoder.embedding.check_statistics(part)
            for encoder in (self.encoder, self.value_encoder):
                if encoder is not None:
                    for part in seen:
                        encoder.embedding.update_statistics(part)

    def policy_parameters(self) -> Iterator[nn.Parameter]:
        """All parameters but those of a separate value network."""
        separate = {id(parameter) for parameter in self.value_parameters()}
        return (parameter for parameter in self.parameters() if id(parameter) not in separate)

    def value_parameters(self) -> Iterator[nn.Parameter]:
        """The parameters of the separate value network; none without ``value_config``."""
        if self.value_encoder is not None:
            yield from self.value_encoder.parameters()
            yield from self.value_head.parameters()

    @property
    def _device(self) -> torch.device:
        return self._weight.device

    @property
    def _weight(self) -> Tensor:
        """One of the parameters: any layer may have been replaced."""
        weight = getattr(self.encoder.mix.linear, "weight", None)
        return weight if isinstance(weight, Tensor) else next(self.parameters())

    def _arrange(self, batch: EntityBatch, flags: Flags | None) -> tuple[Layout, Tensor | None]:
        """Check the features; return the flat order, and which of its rows (N,) are hidden."""
        weight = self._weight
        if weight.dtype != torch.float32:
            raise DtypeError(
                "the network's parameters are of another type than its batches",
                expected=torch.float32,
                received=weight.dtype,
                hint="net.float(); to compute in bfloat16, use torch.autocast",
            )
        check_features(batch, self.obs_space, weight.device, flags)
        layout = Layout.of(batch, self.with_global, tuple(self.obs_space.entities))
        return layout, _hidden(batch, layout)

    def _seen(self, batch: EntityBatch) -> EntityBatch:
        """The batch with positions as the network gets them; for the value, where actors differ."""
        if self.translation is None:
            return batch
        return (
            self.translation.middle(batch)
            if self.translation.each_actor
            else (self.translation(batch))
        )

    def _all_seen(self, batch: EntityBatch) -> list[EntityBatch]:
        """All that ``_seen`` and ``_each`` show to the encoder."""
        seen = [self._seen(batch)]
        if self.translation is not None and self.translation.each_actor:
            acting = [action.actors for action in batch.actions.values()]
            seen += [self.translation.each(batch, own)[0] for own in acting if own.num_rows]
        return seen

    def _each(
        self, batch: EntityBatch, action: CategoricalActors | SelectActors
    ) -> tuple[Tensor, ...]:
        """The rows of an action's actors, and actees, each in a frame as the actor sees it."""
        assert self.translation is not None
        actors = action.actors
        copies, layout = self.translation.each(batch, actors)
        asked = [layout.offsets[:-1] + actors.values]
        if isinstance(action, SelectActors):
            asked.append(layout.flat_rows(action.actees.select(frames_of(actors))))
        encoded: Encoded = self.encoder(copies, layout, _hidden(copies, layout), asked)
        return encoded.rows

    def _asked(self, batch: EntityBatch, layout: Layout) -> list[Tensor]:
        """The flat rows of those whom the heads read, action by action."""
        asked = []
        for name in self.action_space:
            actors = batch.actions[name]
            if actors.actors.num_rows:
                asked.append(layout.flat_rows(actors.actors))
                if isinstance(actors, SelectActors):
                    asked.append(layout.flat_rows(actors.actees))
        return asked


def _hidden(batch: EntityBatch, layout: Layout) -> Tensor | None:
    """Which flat rows (N,) are hidden from the policy; None: no row."""
    if not batch.visible:
        return None
    hidden = torch.zeros(layout.num_rows, dtype=torch.bool, device=batch.device)
    for name, visible in batch.visible.items():
        hidden = hidden.index_copy(0, layout.dest[name], ~visible)
    return hidden


def _of_copies(action: SelectActors, pairs: Pairs) -> Pairs:
    """The same ``pairs`` where each actor has its frame, with its actees, for itself."""
    actors = action.actors
    ends = torch.arange(actors.num_rows + 1, device=actors.values.device)
    alone = RaggedTensor(actors.values, ends)
    own = Pairs.of(SelectActors(alone, action.actees.select(frames_of(actors))))
    return replace(own, mask=pairs.mask)
