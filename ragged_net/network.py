"""RaggedNet: a batch of entity lists -> actions, their log-probabilities, and values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from entity_env.spaces import (
    CONTINUOUS_ACTIONS,
    GLOBAL_ACTIONS,
    ActionSpace,
    ObsSpace,
    SelectEntityActionSpace,
    check_action_space,
)
from ragged_net.actors import CategoricalActors, ContinuousActors, SelectActors
from ragged_net.batch import BatchReading, EntityBatch
from ragged_net.check import (
    Flags,
    check_actions,
    check_features,
    check_given,
    flag_actions,
)
from ragged_net.config import NetConfig, check_sharpness
from ragged_net.errors import DeviceError, DtypeError, check_kind
from ragged_net.heads.conditioning import Conditioning, Told
from ragged_net.heads.continuous import ContinuousHead
from ragged_net.heads.draw import ActionOutput, Draw
from ragged_net.heads.linear_heads import CategoricalHead, SelectEntityHead, ValueHead
from ragged_net.heads.pairs import Pairs
from ragged_net.model.encoder import Encoder
from ragged_net.model.layout import Layout

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
            isinstance(space, GLOBAL_ACTIONS) for space in self.action_space.values()
        )
        first = [n for n in self.action_space if n not in (self.config.action_order or ())]
        # In the order in which they are decided: those that take no part in it come first.
        self._order = (*first, *(self.config.action_order or ()))
        self._places = {name: place for place, name in enumerate(self.action_space)}
        self.encoder = Encoder(obs_space, self.with_global, self.config)
        # A list in the order of the action space: a ModuleDict refuses some action names.
        self.heads = nn.ModuleList(
            _head(self.config.dim, space) for space in self.action_space.values()
        )
        order = self.config.action_order
        self.conditioning = (
            None if order is None else Conditioning(self.config.dim, order, self.action_space)
        )
        self.value_encoder = (
            None
            if value_config is None
            else Encoder(obs_space, self.with_global, value_config, only_means=True)
        )
        sizes = value_config or self.config
        self.value_head = ValueHead(sizes.dim, sizes.activation, sizes.value_norm)

    def forward(
        self,
        batch: EntityBatch,
        *,
        given: Mapping[str, Tensor] | None = None,
        generator: torch.Generator | None = None,
        greedy: bool = False,
        trusted: bool = False,
        temperature: float = 1.0,
        top_k: int = 0,
    ) -> NetOutput:
        """Act on ``batch``.

        Args:
            batch: B frames.
            given: For each action (A,) int64: evaluate these choices (entity indices for a
                selection) instead of drawing any. For a continuous action (A, K) float32.
            generator: Draws the actions; torch's global one if None. On the batch's device.
            greedy: Take the likeliest choice instead of drawing.
            trusted: These frames, and the choices ``given``, come from earlier passes, which have
                looked at their numbers. Nothing then waits for the device, but for lengths that
                the CPU has never known.
            temperature: Divides the logits, above 0: below 1 for surer choices, above 1 for more
                even ones. Of a continuous action it multiplies the variance. Log-probabilities,
                entropies and probabilities are those of the changed distributions.
            top_k: Only so many of the likeliest choices, and those as likely as the last of them,
                keep a probability; 0 for all. Means nothing to continuous actions.

        Raises:
            NetConfigError: A temperature or ``top_k`` out of range.
        """
        check_sharpness(temperature, top_k)
        with BatchReading(batch):
            draw = Draw(given, generator, greedy, trusted, temperature, top_k)
            return self._act(batch, draw)

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
            flag_actions(batch, layout, hidden, pairs, given, self._bounds(), flags)
            flags.check()
        encoded = self.encoder(batch, layout, hidden, self._asked(batch, layout))
        rows, actions = self._rows_of(batch, encoded.rows), dict[str, ActionOutput]()
        told = None
        if self.conditioning is not None and encoded.rows:
            told = Told(self.conditioning, layout, encoded.rows[0])
        for name in self._order:
            head, actors = self.heads[self._places[name]], batch.actions[name]
            if not actors.actors.num_rows:
                width = head.low.shape[0] if isinstance(head, ContinuousHead) else 1
                actions[name] = draw.nobody(actors, width)
                continue
            own, *actees = rows[name]
            if told is not None:
                own = told.listen(name, actors.actors, own)
            if isinstance(actors, ContinuousActors):
                actions[name] = draw.continuous(name, actors, head(own))
            elif isinstance(actors, CategoricalActors):
                actions[name] = draw.categorical(name, actors, head(own, actors.mask))
            else:
                actions[name] = draw.select(name, actors, head(own, *actees, pairs[name]))
            if told is not None:
                chosen = actions[name].chosen.values
                if isinstance(head, ContinuousHead):
                    chosen = (chosen - head.centre) / head.unit
                told.tell(name, actors.actors, chosen, pairs.get(name), *actees)
        if self.conditioning is not None:
            actions = {name: actions[name] for name in self.action_space}
        if self.value_encoder is not None:
            encoded = self.value_encoder(batch, layout)
        return NetOutput(actions, self.value_head(encoded.means))

    def value(self, batch: EntityBatch) -> Tensor:
        """(B,) float32: the values of the frames, without acting; reads no action."""
        with BatchReading(batch):
            flags = Flags()
            layout, hidden = self._arrange(batch, flags)
            flags.check()
            if self.value_encoder is None:
                encoded = self.encoder(batch, layout, hidden)
            else:
                encoded = self.value_encoder(batch, layout)
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
            self.encoder.embedding.check_statistics(batch)
            for encoder in (self.encoder, self.value_encoder):
                if encoder is not None:
                    encoder.embedding.update_statistics(batch)

    def update_value_norm(self, returns: Tensor) -> None:
        """Count ``returns`` (B,) in where values are normalised; no value changes by it.

        Nothing happens without ``value_norm=popart``.
        """
        if isinstance(self.value_head, ValueHead):
            self.value_head.update_norm(returns)

    @property
    def value_std(self) -> Tensor | None:
        """() float32: the unit in which value errors are measured; None where they are as they are.

        A value loss divides values and returns by it, so that its size is that of 1.
        """
        norm = self.value_head.norm if isinstance(self.value_head, ValueHead) else None
        return None if norm is None else norm.std

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
        if not batch.visible:
            return layout, None
        hidden = torch.zeros(layout.num_rows, dtype=torch.bool, device=weight.device)
        for name, visible in batch.visible.items():
            hidden = hidden.index_copy(0, layout.dest[name], ~visible)
        return layout, hidden

    def _rows_of(self, batch: EntityBatch, rows: Sequence[Tensor]) -> dict[str, list[Tensor]]:
        """What ``_asked`` asked for, by action: rows of the actors, and of the actees selected."""
        left, found = iter(rows), {}
        for name in self.action_space:
            actors = batch.actions[name]
            if actors.actors.num_rows:
                count = 2 if isinstance(actors, SelectActors) else 1
                found[name] = [next(left) for _ in range(count)]
        return found

    def _bounds(self) -> dict[str, tuple[Tensor, Tensor]]:
        """The bounds (K,) of each continuous action."""
        heads = zip(self.action_space, self.heads, strict=True)
        return {n: (head.low, head.high) for n, head in heads if isinstance(head, ContinuousHead)}

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


def _head(dim: int, space: ActionSpace) -> nn.Module:
    if isinstance(space, SelectEntityActionSpace):
        return SelectEntityHead(dim)
    if isinstance(space, CONTINUOUS_ACTIONS):
        return ContinuousHead(dim, space)
    return CategoricalHead(dim, len(space))
