"""RaggedNet: a batch of entity lists -> actions, their log-probabilities, and values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from entity_env.errors import BatchError, DeviceError, DtypeError, MissingPackageError, SettingError
from entity_env.spaces import ActionSpace, ObsSpace, check_action_space
from ragged_net.actors import Pairs, SelectActors
from ragged_net.batch import BatchReading, EntityBatch
from ragged_net.check import FaultFlags, check_actions, check_features, check_given, flag_actions
from ragged_net.config import NetConfig, check_sharpness
from ragged_net.devices import full_precision
from ragged_net.heads import head_kind
from ragged_net.heads.conditioning import Conditioning, Told
from ragged_net.heads.continuous import ContinuousHead
from ragged_net.heads.kind import ActionOutput, Draw
from ragged_net.heads.value import ValueHead
from ragged_net.layout import Encoded, Layout
from ragged_net.model.encoder import Encoder, OwnTrunk
from ragged_net.model.grid_layout import GridLayout, GridRows
from ragged_net.model.input_norm import Gathered, own_moments
from ragged_net.model.memory import Memory, Recalled, join, shown_means
from ragged_net.model.translation import Translator
from ragged_net.observed import Observed, choices_for
from ragged_net.ragged import RaggedTensor
from ragged_net.tensor_checks import check_kind

__all__ = ["NetOutput", "RaggedNet"]


@dataclass(frozen=True, eq=False)
class NetOutput:
    """The result of a forward pass.

    Args:
        actions: ActionOutput of each action of the action space.
        value: Value of each frame. Shape: (B,), float32.
        memory: Memory state after each sequence, for its next frames; None without a memory. Shape:
            (S, W), float32.
        frames: The policy's vector of each frame, the mean of its entities, for heads of your own,
            whose losses train the network, too. Shape: (B, D).
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

    def actions_for(self, obs: Observed) -> Mapping[str, Any]:
        """Return the choices as ``rows.act`` takes them, where ``rows`` have returned ``obs``.

        Args:
            obs: The observation whose batch was passed to the network.
        """
        return choices_for(obs, {name: action.chosen for name, action in self.actions.items()})

    def select(self, frames: Tensor) -> NetOutput:
        """Return the outputs for the given frames (K,) int64, in that order, without a memory."""
        return NetOutput(
            {name: action.select(frames) for name, action in self.actions.items()},
            self.value[frames],
            frames=None if self.frames is None else self.frames[frames],
        )


class RaggedNet(nn.Module):
    """A policy and value network on lists of entities.

    Each frame ends with a global entity if the observation space has global features or the action
    space a global action. Log-probabilities, entropies and values are float32, under autocast, too.

    A network with ``NetConfig.memory`` returns a memory state, one row for each game, which the
    caller passes to the next call::

        net = RaggedNet(obs_space, action_space, NetConfig(memory="lstm", memory_size=256))
        state = net.initial_state(games)  # zeros, (games, W); also for each game that begins
        output = net(batch, memory=state)  # one frame of each game
        state = output.memory  # for the next frame of each game

    For training, pass whole sequences of frames, one after the other, with the state before the
    first frame of each, so that gradients flow through time::

        output = net(batch, memory=first_states, sequences=[3, 5], given=choices)

    Args:
        obs_space: Entity types and features.
        action_space: Action spaces by name.
        config: Settings of the network.
        value_config: Settings of a separate network for the value, which sees every entity. Without
            them the value head reads the policy's network, in which hidden entities see all
            entities, and visible ones see no hidden one. A separate network has no memory of its
            own: it reads that of the policy without training it.
        trunk: Module that replaces the transformer: ``trunk(rows, offsets)`` returns rows (N, D)
            for the embedded entities (N, D) of all frames; frame b has
            ``rows[offsets[b]:offsets[b + 1]]``. It knows neither hidden entities nor relative
            positions, so that these are not supported.

    Raises:
        EntityEnvError: A subclass for each way in which a batch does not fit the spaces.
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
            space.is_global for space in self.action_space.values()
        )
        first = [n for n in self.action_space if n not in (self.config.action_order or ())]
        # In the order of choices: actions outside of ``action_order`` come first.
        self._order = (*first, *(self.config.action_order or ()))
        self._places = {name: place for place, name in enumerate(self.action_space)}
        setting = self.config.translation
        if value_config is not None and value_config.translation != setting:
            raise SettingError(
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
        # A list in the order of the action space, because a ModuleDict refuses some action names.
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
        self.value_head = ValueHead(sizes.dim, sizes.value_norm)
        self.memory, self.value_memory = None, None
        if value_config is not None and value_config.memory != "none":
            raise SettingError(
                "the separate value network cannot have a memory",
                expected="memory='none' in value_config, because it reads the memory of the policy",
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
            folder: Run folder.
            device: Device of the network: ``cpu``, ``cuda``, or ``auto``.

        Raises:
            MissingPackageError: No installed package reads run folders.
        """
        # A plug-in of the package that writes runs, because this package imports no trainer.
        for point in entry_points(group="ragged_net.runs"):
            net = point.load()(folder, device)
            assert isinstance(net, RaggedNet)
            return net
        raise MissingPackageError(
            "no installed package can read run folders",
            expected="an entry point of the group 'ragged_net.runs', such as that of ragged-rl",
            hint="run pip install -e . again if it was installed before this entry point existed",
        )

    def initial_state(self, games: int) -> Tensor:
        """Return the states of games that begin: zeros (games, W) float32; W is 0 without a memory.

        Raises:
            SettingError: ``games`` is not a whole number of at least 1.
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
        """Choose actions for ``batch``, and compute its values.

        Args:
            batch: B frames.
            memory: State before each sequence, required by a network with a memory. Shape: (S, W),
                float32.
            sequences: Number of frames of each sequence, at least 1, preferably on the CPU. The
                batch consists of the sequences, one after the other, each in order of time. None
                stands for sequences of one frame. Shape: (S,).
            given: Choices to evaluate instead of drawing, for each action (A,) int64: indices of
                choices, or of entities for a selection. For a continuous action (A, K) float32.
            generator: Random number generator on the batch's device; None for torch's global one.
            greedy: True to take the most likely choice instead of drawing. Actors of a frame with
                the same probabilities are divided among the choices (``heads/greedy.py``).
            trusted: True if the numbers of the batch and of ``given`` have been checked in an
                earlier pass. The CPU then waits for the device only for lengths that it does not
                know.
            temperature: Divisor of the logits, above 0. Below 1 the probabilities become more
                concentrated, above 1 more even. The variance of a continuous action is multiplied
                by it. Log-probabilities, entropies and probabilities are those of the changed
                distributions.
            top_k: Number of most likely choices that keep a probability, together with choices as
                likely as the last of them; 0 for all choices. Has no effect on continuous
                actions.

        Raises:
            SettingError: ``temperature`` or ``top_k`` is out of range.
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
        every, hidden = self._arrange(batch, flags)
        pairs = _pairs(batch)
        if flags is not None:
            self._check_actions(batch, every, hidden, pairs, given, flags)
        seen, layout, encoded, recalled = self._read(batch, every, hidden, memory, sequences)
        actions = dict[str, ActionOutput]()
        rows = self._rows_of(batch, encoded.rows)
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
            actor_rows, *actees = rows[name]
            if told is not None:
                actor_rows = told.listen(name, actors.actors, actor_rows)
            dist = kind.ask(head, [actor_rows, *actees], actors, pairs.get(name))
            actions[name] = kind.act(name, dist, actors, draw)
            if told is not None:
                chosen = actions[name].chosen.values
                told.tell(name, kind, head, actors.actors, chosen, pairs.get(name), *actees)
        if self.conditioning is not None:
            actions = {name: actions[name] for name in self.action_space}
        value = self._value(seen, layout, encoded, recalled)
        state = None if recalled is None else recalled.state
        return NetOutput(actions, value, state, encoded.means)

    def _read(
        self,
        batch: EntityBatch,
        layout: Layout,
        hidden: Tensor | None,
        memory: Tensor | None,
        sequences: Tensor | Sequence[int] | None,
    ) -> tuple[EntityBatch, Layout, Encoded, Recalled | None]:
        """Return the translated batch, its layout with summaries, and what the policy reads of it.

        Its rows are those that ``_asked`` lists.
        """
        layout, hidden = self._summarized(batch, layout, hidden)
        seen = self._seen(batch)
        indices = self._asked(batch)
        asked = [layout.flat_rows(entities) for entities in indices]
        encoded, recalled = self._encode(seen, layout, hidden, asked, memory, sequences)
        if self.grids is not None and isinstance(layout, GridLayout) and self.grids.open:
            embedding = self.encoder.embedding
            encoded = self.grids.add_cells(embedding, seen, layout, indices, encoded)
        return seen, layout, encoded, recalled

    def distributions(
        self, batch: EntityBatch, pairs: Mapping[str, Pairs], memory: Tensor | None = None
    ) -> tuple[dict[str, Any], Tensor, Tensor | None]:
        """Return the distribution of each action, the values (B,), and the next memory, unchecked.

        For networks whose actions do not depend on each other, in batches in which each action has
        actors.

        Args:
            batch: B frames.
            pairs: Pairs of each selection.
            memory: State before each frame. Shape: (B, W).
        """
        layout, hidden = self._arrange(batch, None)
        seen, layout, encoded, recalled = self._read(batch, layout, hidden, memory, None)
        rows = self._rows_of(batch, encoded.rows)
        found = {
            name: head_kind(space).ask(head, rows[name], batch.actions[name], pairs.get(name))
            for (name, space), head in zip(self.action_space.items(), self.heads, strict=True)
        }
        value = self._value(seen, layout, encoded, recalled)
        return found, value, None if recalled is None else recalled.state

    def check(self, batch: EntityBatch) -> None:
        """Check all numbers of a batch, which may then be passed with ``trusted``, on any device.

        On the CPU this takes little time, while on a GPU the CPU would wait for it.

        Raises:
            EntityEnvError: The batch has a mistake, as in ``forward``.
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
            memory: State before each frame, required by a network with a memory. Shape: (B, W),
                float32.
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
            raise BatchError(
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
        self, batch: EntityBatch, layout: Layout, encoded: Encoded | None, recalled: Recalled | None
    ) -> Tensor:
        """Return the values (B,), from ``encoded`` or from the value's own network."""
        if self.value_encoder is not None:
            encoded = self.value_encoder(batch, layout)
        assert encoded is not None  # for the type checker
        means = encoded.means
        if recalled is not None and self.value_memory is not None:
            # The loss of a separate value network must not train the policy.
            known = recalled.hidden if self.value_encoder is None else recalled.hidden.detach()
            with full_precision(means):
                means = means + self.value_memory(known)
        values: Tensor = self.value_head(means)
        return values

    def update_statistics(self, batch: EntityBatch, gathered: Gathered = own_moments) -> None:
        """Add the features of ``batch`` to the input statistics; nothing else changes them.

        Args:
            batch: The frames.
            gathered: Function that returns the moments of all processes of one training, from those
                of this process (``InputNorm.update``).

        Raises:
            FeatureError: A feature is not finite; the statistics are then unchanged.
        """
        with BatchReading(batch):
            flags = FaultFlags()
            check_features(batch, self.obs_space, self._device, flags)
            flags.check()
            seen = self._seen(batch)
            self.encoder.embedding.check_statistics(seen)
            for encoder in (self.encoder, self.value_encoder):
                if encoder is not None:
                    encoder.embedding.update_statistics(seen, gathered)

    def update_value_norm(self, returns: Tensor) -> None:
        """Add ``returns`` (B,) to the statistics of normalised values; the values do not change.

        Without ``value_norm=popart`` it does nothing.
        """
        if isinstance(self.value_head, ValueHead):
            self.value_head.update_norm(returns)

    @property
    def value_std(self) -> Tensor | None:
        """The unit of value errors, () float32; None if values are not normalised.

        A value loss divides values and returns by it, so that its scale does not depend on the
        rewards.
        """
        norm = self.value_head.norm if isinstance(self.value_head, ValueHead) else None
        return None if norm is None else norm.std

    def policy_parameters(self) -> Iterator[nn.Parameter]:
        """Return all parameters except those of a separate value network."""
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
        """One of the parameters; no particular one, because any layer may have been replaced."""
        weight = getattr(self.encoder.mix.linear, "weight", None)
        return weight if isinstance(weight, Tensor) else next(self.parameters())

    def _arrange(
        self, batch: EntityBatch, flags: FaultFlags | None, device: torch.device | None = None
    ) -> tuple[Layout, Tensor | None]:
        """Check the features; return the flat order, and a mask of its hidden rows (N,).

        The batch must be on ``device``, or on that of the weights.
        """
        weight = self._weight
        if weight.dtype != torch.float32:
            raise DtypeError(
                "the network's parameters and the batch have different dtypes",
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
        """Return the flat order and its hidden rows, with summaries in the place of grid cells."""
        if self.grids is None:
            return layout, hidden
        grid_layout = self.grids.layout(batch)
        return grid_layout, _hidden(batch, grid_layout)

    def _seen(self, batch: EntityBatch) -> EntityBatch:
        """Return the batch with translated positions."""
        return batch if self.translation is None else self.translation(batch)

    def _rows_of(self, batch: EntityBatch, rows: Sequence[Tensor]) -> dict[str, list[Tensor]]:
        """Return the rows that ``_asked`` lists, for each action: actors, then actees."""
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
        """Return the entity indices of the rows that the heads read, action by action."""
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
        SettingError: A setting is not supported with grids.
    """
    if not obs_space.grids:
        return None
    if value_config is not None and value_config.tile_summaries != config.tile_summaries:
        raise SettingError(
            "the networks of policy and value have different numbers of summaries of a Grid",
            expected=f"value_net.tile_summaries={config.tile_summaries}, that of net",
            received=value_config.tile_summaries,
        )
    return GridRows(obs_space, with_global, config.tile_summaries)


def _pairs(batch: EntityBatch) -> dict[str, Pairs]:
    """Return the pairs of each selection with at least one actor."""
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
