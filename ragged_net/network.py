"""RaggedNet: a batch of entity lists -> actions, their log-probabilities, and values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from entity_env.spaces import (
    GLOBAL_ACTIONS,
    ActionSpace,
    ObsSpace,
    check_action_space,
)
from ragged_net.actors import Actors, SelectActors
from ragged_net.batch import BatchReading, EntityBatch
from ragged_net.check import (
    FaultFlags,
    check_actions,
    check_features,
    check_given,
    flag_actions,
)
from ragged_net.config import NetConfig, check_sharpness
from ragged_net.errors import (
    DeviceError,
    DtypeError,
    MemoryStateError,
    NetConfigError,
    RunReaderError,
    check_kind,
)
from ragged_net.heads.conditioning import Conditioning, Told
from ragged_net.heads.continuous import ContinuousHead
from ragged_net.heads.draw import ActionOutput, Draw
from ragged_net.heads.pairs import Pairs
from ragged_net.heads.table import head_kind
from ragged_net.heads.value import ValueHead
from ragged_net.model.encoder import Encoder
from ragged_net.model.grid_layout import GridLayout, GridRows
from ragged_net.model.input_norm import Gathered, own_moments
from ragged_net.model.layout import Layout
from ragged_net.model.memory import Memory, Recalled, join, shown_means
from ragged_net.model.read_rows import Encoded
from ragged_net.model.translation import Translator, frames_of
from ragged_net.model.trunk import OwnTrunk
from ragged_net.precision import full_precision
from ragged_net.ragged import RaggedTensor
from ragged_net.transfer import send

__all__ = ["NetOutput", "RaggedNet"]


@dataclass(frozen=True, eq=False)
class NetOutput:
    """The result of a forward pass.

    Args:
        actions: An ActionOutput for each action of the action space.
        value: (B,) float32: the value of each frame.
        memory: (S, W) float32: what a network with a memory knows after each sequence, the state
            for its next frames; None without a memory.
        frames: (B, D) the policy's vector of each frame, the mean of its entities: for heads of
            your own, whose losses reach the network through it.
    """

    actions: Mapping[str, ActionOutput]
    value: Tensor
    memory: Tensor | None = None
    frames: Tensor | None = None

    @staticmethod
    def cat(parts: Sequence[NetOutput]) -> NetOutput:
        """Concatenate the outputs of one network."""
        names = parts[0].actions
        states = [part.memory for part in parts if part.memory is not None]
        return NetOutput(
            {name: ActionOutput.cat([part.actions[name] for part in parts]) for name in names},
            torch.cat([part.value for part in parts]),
            torch.cat(states) if states else None,
            _cat([part.frames for part in parts]),
        )


class RaggedNet(nn.Module):
    """A policy and value network on lists of entities.

    Each frame ends with a global entity if the observation space has global features or the action
    space a global action. Log-probabilities, entropies and values are float32, under autocast too.

    With ``NetConfig.memory`` the network remembers, and whoever calls it keeps what it remembers, a
    row of numbers for each game::

        net = RaggedNet(obs_space, action_space, NetConfig(memory="lstm", memory_size=256))
        state = net.initial_state(games)  # zeros, (games, W); again wherever a game begins
        output = net(batch, memory=state)  # a frame of each game
        state = output.memory  # for the next frame of each

    To learn, it is given whole sequences of frames, one after the other, each with the state that
    went into its first frame, and gradients flow through time::

        output = net(batch, memory=first_states, sequences=[3, 5], given=choices)

    Args:
        obs_space: Entity types and features.
        action_space: Action spaces by name.
        config: Size and kind of the network.
        value_config: Given, the value has a separate network of its own, which sees every entity.
            Otherwise the value head reads the policy's network, in which hidden entities see all
            and no visible entity sees a hidden one. It has no memory of its own: it reads that of
            the policy, and does not train it.
        trunk: A module of your own in the place of the transformer: ``trunk(rows, offsets)`` makes
            rows (N, D) of the embedded entities (N, D) of all frames, those of frame b being
            ``rows[offsets[b]:offsets[b + 1]]``. Nobody tells it who is hidden, or where entities
            are seen from, so that neither goes together with it.

    Raises:
        RaggedNetError: A subclass for each way in which a batch does not fit the spaces.
    """

    def __init__(
        self,
        obs_space: ObsSpace,
        action_space: Mapping[str, ActionSpace],
        config: NetConfig | None = None,
        value_config: NetConfig | None = None,
        trunk: nn.Module | None = None,
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
        self.grids = _grid_rows(obs_space, self.with_global, self.config, value_config)
        seen = obs_space if self.translation is None else self.translation.space
        self.encoder = Encoder(seen, self.with_global, self.config)
        if trunk is not None:
            self.encoder.transformer = OwnTrunk(trunk, self.encoder)
        # A list in the order of the action space: a ModuleDict refuses some action names.
        self.heads = nn.ModuleList(
            head_kind(space).head(self.config.dim, space) for space in self.action_space.values()
        )
        order = self.config.action_order
        self.conditioning = (
            None if order is None else Conditioning(self.config.dim, order, self.action_space)
        )
        self.value_encoder = (
            None
            if value_config is None
            else Encoder(seen, self.with_global, value_config, only_means=True)
        )
        sizes = value_config or self.config
        self.value_head = ValueHead(sizes.dim, sizes.activation, sizes.value_norm)
        self.memory, self.value_memory = None, None
        if value_config is not None and value_config.memory != "none":
            raise NetConfigError(
                "the separate value network cannot have a memory",
                expected="memory='none' in value_config: it reads the memory of the policy",
                received=repr(value_config.memory),
            )
        if self.config.memory != "none":
            self.memory = Memory(self.config)
            self.value_memory = nn.Linear(self.config.memory_size, sizes.dim, bias=False)

    @staticmethod
    def from_run(folder: str | Path, device: str = "cpu") -> RaggedNet:
        """Return the newest network of a run of ``ppo_trainer``, or the best one of ``<run>/best``.

        No code that the run names is imported, and the weights may come from any device.

        Args:
            folder: The run folder.
            device: Where the network is to be: ``cpu``, ``cuda``, or ``auto``.

        Raises:
            RunReaderError: Nobody who reads runs is installed.
        """
        # Whoever writes runs can read them, and this package imports no trainer.
        for point in entry_points(group="ragged_net.runs"):
            net = point.load()(folder, device)
            assert isinstance(net, RaggedNet)
            return net
        raise RunReaderError(
            "no installed package can read run folders",
            expected="an entry point of the group 'ragged_net.runs', such as that of ragged-rl",
            hint="pip install -e . anew, where it was installed before there was one",
        )

    def initial_state(self, games: int) -> Tensor:
        """Return the state (games, W) float32 of games that begin; W is 0 without a memory.

        Raises:
            NetConfigError: Not a whole number of at least 1.
        """
        if self.memory is None:
            return torch.zeros(games, 0, device=self._device)
        return self.memory.initial_state(games)

    def forward(
        self,
        batch: EntityBatch,
        *,
        memory: Tensor | None = None,
        sequences: Tensor | Sequence[int] | None = None,
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
            memory: (S, W) float32, for a network with a memory, and only for one: the state before
                each sequence; see above.
            sequences: (S,) The number of frames of each sequence, at least 1: the batch consists
                of them, one after the other, each in order of time. Best on the CPU. None: each
                frame is a sequence of its own.
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
            return self._act(batch, draw, memory, sequences)

    def _act(
        self,
        batch: EntityBatch,
        draw: Draw,
        memory: Tensor | None,
        sequences: Tensor | Sequence[int] | None,
    ) -> NetOutput:
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
        flags = None if draw.trusted else FaultFlags()
        layout, hidden = self._arrange(batch, flags)
        pairs = _pairs(batch)
        if flags is not None:
            self._check_actions(batch, layout, hidden, pairs, given, flags)
        every, (layout, hidden) = layout, self._summarized(batch, layout, hidden)
        seen = self._seen(batch)
        alone = self.translation is not None and self.translation.each_actor
        indices = [] if alone else self._asked(batch)
        asked = [layout.flat_rows(own) for own in indices]
        encoded, recalled = self._encode(seen, layout, hidden, asked, memory, sequences)
        if self.grids is not None and isinstance(layout, GridLayout) and self.grids.open:
            own_cells = self.encoder.embedding
            encoded = self.grids.add_cells(own_cells, seen, layout, indices, encoded)
        actions = dict[str, ActionOutput]()
        rows = {} if alone else self._rows_of(batch, encoded.rows)
        told = None
        if self.conditioning is not None and encoded.rows:
            told = Told(self.conditioning, every, encoded.rows[0])
        for name in self._order:
            head, actors = self.heads[self._places[name]], batch.actions[name]
            space = self.action_space[name]
            kind = head_kind(space)
            if not actors.actors.num_rows:
                actions[name] = kind.nobody(actors, space)
                continue
            own, *actees = self._each(batch, actors) if alone else rows[name]
            if told is not None:
                own = told.listen(name, actors.actors, own)
            known = pairs.get(name)
            own_pairs = known if known is None or not alone else _of_copies(actors, known)
            dist = kind.ask(head, [own, *actees], actors, own_pairs)
            if known is not None and own_pairs is not None and alone:
                dist = replace(dist, pairs=replace(own_pairs, frame_offsets=known.frame_offsets))
            actions[name] = kind.act(name, dist, actors, draw)
            if told is not None:
                chosen = actions[name].chosen.values
                told.tell(name, kind, head, actors.actors, chosen, known, *actees)
        if self.conditioning is not None:
            actions = {name: actions[name] for name in self.action_space}
        value = self._value(seen, layout, encoded, recalled)
        state = None if recalled is None else recalled.state
        return NetOutput(actions, value, state, encoded.means)

    def check(self, batch: EntityBatch) -> None:
        """Look at all numbers of a batch, which may then be trusted, also on another device.

        On the CPU this costs little, where a GPU would be waited for.

        Raises:
            RaggedNetError: What ``forward`` raises about such a batch.
        """
        with BatchReading(batch):
            check_actions(batch, self.action_space)
            flags = FaultFlags()
            layout, hidden = self._arrange(batch, flags, batch.device)
            self._check_actions(batch, layout, hidden, _pairs(batch), None, flags)

    def _check_actions(
        self,
        batch: EntityBatch,
        layout: Layout,
        hidden: Tensor | None,
        pairs: Mapping[str, Pairs],
        given: Mapping[str, Tensor] | None,
        flags: FaultFlags,
    ) -> None:
        """Raise the first error of the flags, to which those of the actors are added."""
        silent = hidden if self.grids is None else self.grids.silent(batch, layout, hidden)
        flag_actions(batch, layout, silent, pairs, given, self._bounds(), flags)
        flags.check()

    def value(self, batch: EntityBatch, *, memory: Tensor | None = None) -> Tensor:
        """Return the values (B,) float32 of the frames, without acting.

        Args:
            batch: B frames.
            memory: (B, W) float32, for a network with a memory: the state before each frame.
        """
        with BatchReading(batch):
            flags = FaultFlags()
            layout, hidden = self._arrange(batch, flags)
            flags.check()
            layout, hidden = self._summarized(batch, layout, hidden)
            encoded, recalled, seen = None, None, self._seen(batch)
            if self.value_encoder is None:
                encoded, recalled = self._encode(seen, layout, hidden, [], memory, None)
            elif self.memory is not None or memory is not None:
                _, recalled = self._recall(seen, layout, hidden, memory, None)
            return self._value(seen, layout, encoded, recalled)

    def _encode(
        self,
        batch: EntityBatch,
        layout: Layout,
        hidden: Tensor | None,
        asked: list[Tensor],
        memory: Tensor | None,
        sequences: Tensor | Sequence[int] | None,
    ) -> tuple[Encoded, Recalled | None]:
        """Return the policy's vectors of frames and entities, and the memory's output."""
        if self.memory is None and memory is None and sequences is None:
            return self.encoder(batch, layout, hidden, asked), None
        x, recalled = self._recall(batch, layout, hidden, memory, sequences)
        frames = self.encoder.frames_of(batch, layout, hidden)
        waves = self.encoder.waves
        silent = None if waves is None else waves.silent.view(2, -1)
        joined = join(x, frames, recalled.entities, silent)
        asked = [rows + joined.shift.index_select(0, rows) for rows in asked]
        return self.encoder.attend(joined.rows, joined.frames, asked), recalled

    def _recall(
        self,
        batch: EntityBatch,
        layout: Layout,
        hidden: Tensor | None,
        memory: Tensor | None,
        sequences: Tensor | Sequence[int] | None,
    ) -> tuple[Tensor, Recalled]:
        """Return the entities (N, D) before attention, and the memory's output."""
        if self.memory is None:
            raise MemoryStateError(
                "the network has no memory, and was given "
                + ("sequences" if memory is None else "a state"),
                expected="neither memory nor sequences",
                hint="NetConfig(memory='lstm') gives it one",
            )
        count = layout.num_frames if sequences is None else len(sequences)
        self.memory.check_state(memory, count)  # before anything is computed
        assert memory is not None  # for the type checker
        x = self.encoder.embed(batch, layout)
        return x, self.memory(shown_means(x, layout, hidden), memory, sequences)

    def _value(
        self,
        batch: EntityBatch,
        layout: Layout,
        encoded: Encoded | None,
        recalled: Recalled | None,
    ) -> Tensor:
        """Return the values (B,), from ``encoded`` or from the value's own network."""
        if self.value_encoder is not None:
            encoded = self.value_encoder(batch, layout)
        assert encoded is not None  # for the type checker
        means = encoded.means
        if recalled is not None and self.value_memory is not None:
            # Another network's loss must not train the policy.
            known = recalled.hidden if self.value_encoder is None else recalled.hidden.detach()
            with full_precision(means):
                means = means + self.value_memory(known)
        values: Tensor = self.value_head(means)
        return values

    def update_statistics(self, batch: EntityBatch, gathered: Gathered = own_moments) -> None:
        """Add the features of ``batch`` to the input statistics; nothing else changes them.

        Args:
            batch: The frames.
            gathered: Where several processes learn one network, returns the moments of all of them,
                of which each gives its own (``InputNorm.update``).

        Raises:
            FeatureValueError: A feature that is not finite; all statistics are then untouched.
        """
        with BatchReading(batch):
            flags = FaultFlags()
            check_features(batch, self.obs_space, self._device, flags)
            flags.check()
            seen = self._all_seen(batch)
            for part in seen:
                self.encoder.embedding.check_statistics(part)
            for encoder in (self.encoder, self.value_encoder):
                if encoder is not None:
                    encoder.embedding.update_statistics(*seen, gathered=gathered)

    def update_value_norm(self, returns: Tensor) -> None:
        """Add ``returns`` (B,) to the statistics of normalised values; no value changes.

        Nothing happens without ``value_norm=popart``.
        """
        if isinstance(self.value_head, ValueHead):
            self.value_head.update_norm(returns)

    @property
    def value_std(self) -> Tensor | None:
        """The unit () float32 of value errors; None where values are not normalised.

        A value loss divides values and returns by it, so that its size is that of 1.
        """
        norm = self.value_head.norm if isinstance(self.value_head, ValueHead) else None
        return None if norm is None else norm.std

    def policy_parameters(self) -> Iterator[nn.Parameter]:
        """Return all parameters but those of a separate value network."""
        separate = {id(parameter) for parameter in self.value_parameters()}
        return (parameter for parameter in self.parameters() if id(parameter) not in separate)

    def value_parameters(self) -> Iterator[nn.Parameter]:
        """Return the parameters of the separate value network; none without ``value_config``."""
        if self.value_encoder is not None:
            yield from self.value_encoder.parameters()
            yield from self.value_head.parameters()
            if self.value_memory is not None:
                yield from self.value_memory.parameters()

    @property
    def _device(self) -> torch.device:
        return self._weight.device

    @property
    def _weight(self) -> Tensor:
        """One of the parameters; any layer may have been replaced."""
        weight = getattr(self.encoder.mix.linear, "weight", None)
        return weight if isinstance(weight, Tensor) else next(self.parameters())

    def _arrange(
        self, batch: EntityBatch, flags: FaultFlags | None, device: torch.device | None = None
    ) -> tuple[Layout, Tensor | None]:
        """Check the features; return the flat order, and which of its rows (N,) are hidden.

        The batch is to be on ``device``, or where the weights are.
        """
        weight = self._weight
        if weight.dtype != torch.float32:
            raise DtypeError(
                "the network's parameters are of another type than its batches",
                expected=torch.float32,
                received=weight.dtype,
                hint="net.float(); to compute in bfloat16, use torch.autocast",
            )
        check_features(batch, self.obs_space, device or weight.device, flags)
        layout = Layout.of(batch, self.with_global, tuple(self.obs_space.entities))
        if self.grids is not None and flags is not None:
            self.grids.check(batch)
        return layout, _hidden(batch, layout)

    def _summarized(
        self, batch: EntityBatch, layout: Layout, hidden: Tensor | None
    ) -> tuple[Layout, Tensor | None]:
        """Return the flat order, and what is hidden of it, with summaries in the place of cells."""
        if self.grids is None:
            return layout, hidden
        own = self.grids.layout(batch)
        return own, _hidden(batch, own)

    def _seen(self, batch: EntityBatch) -> EntityBatch:
        """Return the batch with translated positions; the value's, if actors differ."""
        if self.translation is None:
            return batch
        if self.translation.each_actor:
            return self.translation.middle(batch)
        moved: EntityBatch = self.translation(batch)
        return moved

    def _all_seen(self, batch: EntityBatch) -> list[EntityBatch]:
        """Return all batches that the encoder reads."""
        seen = [self._seen(batch)]
        if self.translation is not None and self.translation.each_actor:
            acting = [action.actors for action in batch.actions.values()]
            seen += [self.translation.each(batch, own)[0] for own in acting if own.num_rows]
        return seen

    def _each(self, batch: EntityBatch, action: Actors) -> tuple[Tensor, ...]:
        """Return the rows of an action's actors, and actees, each in its actor's own frame."""
        assert self.translation is not None
        actors = action.actors
        copies, layout = self.translation.each(batch, actors)
        asked = [layout.offsets[:-1] + actors.values]
        if isinstance(action, SelectActors):
            asked.append(layout.flat_rows(action.actees.select(frames_of(actors))))
        encoded: Encoded = self.encoder(copies, layout, _hidden(copies, layout), asked)
        return encoded.rows

    def _rows_of(self, batch: EntityBatch, rows: Sequence[Tensor]) -> dict[str, list[Tensor]]:
        """Return for each action the rows that ``_asked`` asked for: actors, then actees."""
        left, found = iter(rows), {}
        for name in self.action_space:
            actors = batch.actions[name]
            if actors.actors.num_rows:
                count = 2 if isinstance(actors, SelectActors) else 1
                found[name] = [next(left) for _ in range(count)]
        return found

    def _bounds(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Return the bounds (K,) of each continuous action."""
        heads = zip(self.action_space, self.heads, strict=True)
        return {n: (head.low, head.high) for n, head in heads if isinstance(head, ContinuousHead)}

    def _asked(self, batch: EntityBatch) -> list[RaggedTensor]:
        """Return the entity indices of those whom the heads read, action by action."""
        asked = []
        for name in self.action_space:
            actors = batch.actions[name]
            if actors.actors.num_rows:
                asked.append(actors.actors)
                if isinstance(actors, SelectActors):
                    asked.append(actors.actees)
        return asked


def _cat(parts: Sequence[Tensor | None]) -> Tensor | None:
    tensors = [part for part in parts if part is not None]
    return torch.cat(tensors) if tensors else None


def _grid_rows(
    obs_space: ObsSpace, with_global: bool, config: NetConfig, value_config: NetConfig | None
) -> GridRows | None:
    """Return the summaries of grids' cells, or None for a space without grids.

    Raises:
        NetConfigError: Settings that do not go together with grids.
    """
    if not obs_space.grids:
        return None
    if value_config is not None and value_config.tile_summaries != config.tile_summaries:
        raise NetConfigError(
            "the networks of policy and value make different numbers of entities of a Grid",
            expected=f"value_net.tile_summaries={config.tile_summaries}, that of net",
            received=value_config.tile_summaries,
        )
    if config.translation is not None and config.translation.each_actor:
        raise NetConfigError(
            "translation.each_actor and a Grid do not go together",
            expected="one of them: the map would be read once more for each actor",
            received=f"the grids {', '.join(map(repr, obs_space.grids))}",
        )
    return GridRows(obs_space, with_global, config.tile_summaries)


def _pairs(batch: EntityBatch) -> dict[str, Pairs]:
    """Return the pairs of each selection by somebody."""
    return {
        name: Pairs.of(actors)
        for name, actors in batch.actions.items()
        if isinstance(actors, SelectActors) and actors.actors.num_rows
    }


def _hidden(batch: EntityBatch, layout: Layout) -> Tensor | None:
    """Return a mask (N,) of the flat rows hidden from the policy, or None."""
    if not batch.visible:
        return None
    hidden = torch.zeros(layout.num_rows, dtype=torch.bool, device=batch.device)
    for name, visible in batch.visible.items():
        hidden = hidden.index_copy(0, layout.dest[name], ~visible)
    return hidden


def _of_copies(action: Any, pairs: Pairs) -> Pairs:
    """Return the same ``pairs`` where each actor has its frame, with its actees, for itself."""
    actors = action.actors
    ends = torch.arange(actors.num_rows + 1)
    alone = RaggedTensor.unchecked(actors.values, send(ends, actors.values.device), ends)
    own = Pairs.of(SelectActors(alone, action.actees.select(frames_of(actors))))
    return replace(own, mask=pairs.mask)
