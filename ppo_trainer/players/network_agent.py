"""The agent of a network, or of the networks of a population, for observations and for rows."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from entity_env import Action, Environment, MultiPlayerEnvironment, Observation, ObsSpace, VecObs
from entity_env.agent import Decision, SpacedAgent, decided_actions
from entity_env.batching.frame import Frame
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.vec_obs import batch_frames
from entity_env.errors import (
    DAMAGES,
    EntityEnvError,
    ObservationError,
    SettingError,
    StateError,
    counted,
    shorten,
)
from entity_env.wrappers.feature_filter import filtered_frame
from entity_env.wrappers.selection import Selection
from ppo_trainer.config import TrainConfig
from ppo_trainer.environments import Game
from ppo_trainer.experience.acting import RowMemory, autocast, check_output, take_frames
from ppo_trainer.players.population_rows import owners_of_seats
from ppo_trainer.runs.checkpoint import latest_checkpoint
from ppo_trainer.runs.load_run import LoadedNet, game_of
from ragged_net import ActionOutput, EntityBatch, NetOutput, RaggedNet
from ragged_net.config import check_sharpness

__all__ = ["NetworkAgent", "agent_of"]


class NetworkAgent(SpacedAgent):
    """An agent that plays with a network; changes of its weights take effect at once.

    If the network has a memory, each row of ``act_rows`` has its own state, and so has each
    ``game`` of ``act``, until ``reset`` or an observation with ``done``.

    Args:
        nets: The network, or those of a population, each of which plays its own seats in
            ``act_rows`` (see ``owners_of_seats``); otherwise the first one plays.
        seed: Seed of the random numbers; network i of a population has ``seed + i``.
        greedy: True to take the most likely choices instead of drawing.
        temperature: Divisor of the logits. Below 1 the probabilities become more concentrated,
            above 1 more even. The variance of continuous actions is multiplied by it.
        top_k: Number of most likely choices among which to draw; 0 for all choices.
        precision: ``TrainConfig.precision``.
        generator: Random number generator on the network's device, which replaces ``seed``.
        seats: Number of seats of a game, for a population.
        loaded: The run of the network, if it has one.
        shown: Space of single observations; None for that of the network.

    Raises:
        SettingError: ``temperature`` or ``top_k`` is out of range.
    """

    def __init__(
        self,
        nets: RaggedNet | Sequence[RaggedNet],
        *,
        seed: int = 0,
        greedy: bool = False,
        temperature: float = 1.0,
        top_k: int = 0,
        precision: Literal["float32", "bfloat16"] = "float32",
        generator: torch.Generator | None = None,
        seats: int = 1,
        loaded: LoadedNet | None = None,
        shown: ObsSpace | None = None,
    ) -> None:
        check_sharpness(temperature, top_k)
        self.nets = (nets,) if isinstance(nets, RaggedNet) else tuple(nets)
        super().__init__(self.net.obs_space, self.net.action_space)
        self.greedy, self.temperature, self.top_k = greedy, temperature, top_k
        self.precision, self.seats, self.loaded = precision, seats, loaded
        self._device = next(self.net.parameters()).device
        self._generators = [torch.Generator(self._device) for _ in self.nets]
        self.seed(seed)
        if generator is not None:
            self._generators = [generator]
        self._ended = np.zeros(1, np.bool_)
        self._shown = self.obs_space if shown is None else shown
        self._frames = FrameReader(self._shown, self.action_space)
        self._known = Selection.of(self._shown, self.obs_space)
        self.reset()

    @property
    def net(self) -> RaggedNet:
        """The network, or the first one of a population."""
        return self.nets[0]

    def __deepcopy__(self, memo: dict[int, Any]) -> NetworkAgent:
        """Return an agent that shares the networks, and has its own random numbers and memory."""
        agent = copy.copy(self)
        shared = (*self.nets, self.loaded)
        memo |= {id(self): agent} | {id(part): part for part in shared}
        vars(agent).update(copy.deepcopy(vars(self), memo))
        return agent

    def __repr__(self) -> str:
        """Return a text with the run, the settings of draws and the device."""
        parts = [] if self.loaded is None else [repr(str(self.loaded.run.path))]
        parts.append("greedy" if self.greedy else "draws its choices")
        if self.temperature != 1.0:
            parts.append(f"temperature {self.temperature:g}")
        if self.top_k:
            parts.append(f"top_k {self.top_k}")
        return f"NetworkAgent({', '.join(parts)}, {self._device})"

    # Single observations.

    def act(
        self,
        observation: Observation,
        *,
        greedy: bool | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        game: Hashable = 0,
    ) -> dict[str, Action]:
        """Return actions as input of the environment, with their probabilities.

        ``probs``, or ``mean`` and ``std`` of a continuous action, are those after ``temperature``
        and ``top_k``.

        Args:
            observation: Observation of the environment.
            greedy: True to take the most likely choices, False to draw; None for the agent's
                setting.
            temperature: See the class; None for the agent's setting.
            top_k: See the class; None for the agent's setting.
            game: Name of the game, if several games are played in turns.

        Raises:
            EntityEnvError: The observation does not fit the spaces of the network.
            SettingError: A temperature or ``top_k`` out of range.
        """
        frames = [self._frame(observation)]
        return self._act(frames, [game], greedy=greedy, temperature=temperature, top_k=top_k)[0]

    def act_many(
        self,
        observations: Iterable[Observation],
        *,
        greedy: bool | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        games: Sequence[Hashable] | None = None,
    ) -> list[dict[str, Action]]:
        """Return the actions for several observations, in one pass of the network.

        The actions are those of ``act`` for each observation, except for random numbers, in much
        less time.

        Args:
            observations: Observations of one or several environments.
            greedy: See ``act``.
            temperature: See ``act``.
            top_k: See ``act``.
            games: Name of the game of each observation, used by networks with a memory. None
                numbers the games from 0, so that the k-th observations of all calls belong to one
                game.

        Raises:
            EntityEnvError: An observation does not fit the spaces of the network.
        """
        if isinstance(observations, Observation):
            raise ObservationError(
                "act_many needs a list of observations",
                expected="a list of observations",
                received=shorten(observations),
                hint="act takes a single observation",
            )
        frames = [
            self._frame(observation, f"observation {index}")
            for index, observation in enumerate(observations)
        ]
        games = range(len(frames)) if games is None else games
        if len(games) != len(frames):
            raise SettingError(
                "the number of observations and of games differ",
                expected=counted(len(frames), "game"),
                received=shorten(list(games)),
            )
        if not frames:
            return []
        return self._act(frames, games, greedy=greedy, temperature=temperature, top_k=top_k)

    @torch.no_grad()
    def value(self, observation: Observation, *, game: Hashable = 0) -> float:
        """Return the network's value of an observation of ``game``."""
        obs = batch_frames([self._frame(observation)], self.obs_space, self.action_space)
        batch = EntityBatch.from_obs(obs, self._device)
        with autocast(self._device, self.precision):
            return float(self.net.value(batch, memory=self._memory_of([game]).states)[0])

    def decide(self, obs: VecObs) -> Decision:
        """Return the actions for the only row of ``obs``, with all probabilities and the value."""
        return self._decide(obs, [0])[0]

    def decide_rows(self, obs: VecObs) -> list[Decision]:
        """Return a decision for each frame of ``obs``, where frames are unrelated positions.

        Raises:
            SettingError: The network has a memory.
        """
        if self.net.memory is not None:
            raise SettingError(
                "unrelated positions cannot be evaluated by a network with a memory",
                expected="a network without a memory",
                received=repr(self),
            )
        return self._decide(obs, range(obs.num_frames))

    # Rows.

    def act_rows(self, obs: VecObs) -> Mapping[str, ActionBuffer]:
        """Return the actions for the rows of a ``VecEnv`` that must act.

        Args:
            obs: Observation with the spaces of the network; ``VecFeatureFilter`` removes what it
                does not know.
        """
        return self.output(obs).actions_for(obs)

    def output(self, obs: VecObs) -> NetOutput:
        """Return the networks' output for the rows that must act, with drawn choices."""
        if len(self.nets) == 1:
            return self._output(0, obs)
        owner = owners_of_seats(len(obs), self.seats, len(self.nets))
        # Kept for networks whose rows do not act now; they get the ends of episodes later.
        self._ended = self._ended | obs.done
        outputs, places = list[NetOutput](), list[npt.NDArray[np.int64]]()
        for number in range(len(self.nets)):
            mine = np.flatnonzero(owner[obs.rows] == number)
            if len(mine) or not obs.num_frames:
                shown = replace(take_frames(obs, mine), done=self._ended)
                outputs.append(self._output(number, shown))
                places.append(mine)
                self._ended = self._ended & (owner != number)
        order = np.argsort(np.concatenate(places))
        return NetOutput.cat(outputs).select(torch.from_numpy(order))

    # Random numbers and memory.

    def seed(self, seed: int) -> None:
        """Seed the random numbers."""
        for number, generator in enumerate(self._generators):
            generator.manual_seed(seed + number)

    def reset(self, game: Hashable | None = None) -> None:
        """Clear the memory of a game of ``act``, or with None that of all games and rows."""
        if game is not None:
            self._states.pop(game, None)
            return
        self._states: dict[Hashable, Tensor] = {}  # of the games of ``act``
        self._memories: dict[int, RowMemory] = {}  # of the rows, for each network
        self._ended = np.zeros(1, np.bool_)

    def get_state(self) -> dict[str, Any]:
        """Return random numbers and memory of the rows as JSON values, of a single network."""
        states = self._memories[0].states if self._memories else None
        return {
            "generator": bytes(self._generators[0].get_state().tolist()).hex(),
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
            self._generators[0].set_state(drawn)
            self.reset()
            if state["memory"] is not None:
                memory = RowMemory(self.net, int(state["rows"]))
                kept = torch.tensor(state["memory"], dtype=torch.float32)
                if memory.states is None or kept.shape != memory.states.shape:
                    raise ValueError("the memory states are those of another network")
                self._memories[0] = memory.with_states(kept.to(self._device))
        except (*DAMAGES, RuntimeError) as error:
            raise StateError(f"the saved state of an agent is damaged: {error}") from error

    # The run.

    @property
    def version(self) -> str:
        """The name of the checkpoint that the agent plays with."""
        return self._run().checkpoint.name

    def is_newest(self) -> bool:
        """Return False if the run has a newer checkpoint."""
        run, checkpoint = self._run().run, self._run().checkpoint
        return checkpoint.parent != run.checkpoints or checkpoint == latest_checkpoint(run)

    def make_game(self, trust: bool = False) -> Environment | MultiPlayerEnvironment:
        """Return the game of the training, with all of its seats if it has several.

        Args:
            trust: Consent to import the environment that the run of somebody else names.
        """
        return game_of(self._run(), trust=trust).played()

    def of_seat(self, seat: int) -> NetworkAgent:
        """Return a new agent with the policy that a seat belongs to, where each has its own."""
        return NetworkAgent(
            self.nets[seat % len(self.nets)],
            greedy=self.greedy,
            temperature=self.temperature,
            top_k=self.top_k,
            precision=self.precision,
            loaded=self.loaded,
            shown=self._shown,
        )

    def _run(self) -> LoadedNet:
        if self.loaded is None:
            raise SettingError("the agent has no run", expected="an agent of load_agent(run)")
        return self.loaded

    def _act(
        self, frames: list[Frame], games: Sequence[Hashable], **choosing: Any
    ) -> list[dict[str, Action]]:
        obs = batch_frames(frames, self.obs_space, self.action_space)
        decisions = self._decide(obs, games, **choosing)
        return [
            decided_actions(frame, decision, self.action_space)
            for frame, decision in zip(frames, decisions, strict=True)
        ]

    def _decide(self, obs: VecObs, games: Sequence[Hashable], **choosing: Any) -> list[Decision]:
        """Return the decision in each frame, of which each is of another game."""
        memory = self._memory_of(games)
        output = self._pass(0, obs, memory, **choosing)
        if memory.states is not None:
            # Copies, because a view would keep the states of all games in memory.
            self._states |= zip(games, map(torch.clone, memory.states), strict=True)
            for number in np.flatnonzero(obs.done):
                self._states.pop(games[number], None)
        return decisions_of(output)

    def _output(self, number: int, obs: VecObs) -> NetOutput:
        """Return the output of one network for its rows."""
        if number not in self._memories:
            self._memories[number] = RowMemory(self.nets[number], len(obs))
        memory = self._memories[number]
        memory.cut(obs.done)
        return self._pass(number, obs, memory)

    @torch.no_grad()
    def _pass(self, number: int, obs: VecObs, memory: RowMemory, **choosing: Any) -> NetOutput:
        """Return the output of one network; ``choosing`` replaces settings that are not None."""
        settings = {"greedy": self.greedy, "temperature": self.temperature, "top_k": self.top_k}
        settings |= {name: value for name, value in choosing.items() if value is not None}
        with autocast(self._device, self.precision):
            output = self.nets[number](
                EntityBatch.from_obs(obs, self._device),
                memory=memory.of(obs.rows),
                generator=self._generators[number],
                **settings,
            )
        memory.keep(obs.rows, output.memory)
        return check_output(output)

    def _memory_of(self, games: Sequence[Hashable]) -> RowMemory:
        """Return a memory whose rows are games, in their order.

        Raises:
            SettingError: A name is not hashable, or two observations are of one game.
        """
        memory = RowMemory(self.net, len(games))
        if memory.states is None:
            return memory
        try:
            distinct = len(set(games))
        except TypeError as error:
            raise SettingError(
                "the name of a game is not hashable",
                expected="a number or a string, for example",
                received=shorten(list(games)),
            ) from error
        if distinct < len(games):
            raise SettingError(
                "two observations are of the same game, and the network has a memory",
                expected="at most one observation of each game",
                received=shorten(list(games)),
                hint="games=[...] assigns each observation to a game",
            )
        pairs = zip(games, memory.states, strict=True)
        states = [self._states.get(game, beginning) for game, beginning in pairs]
        return memory.with_states(torch.stack(states)) if states else memory

    def _frame(self, observation: Observation, where: str | None = None) -> Frame:
        try:
            frame = self._frames.read(observation)
            return filtered_frame(frame, self._known, self.action_space)
        except EntityEnvError as error:
            located = error if where is None else error.located(where)
            if self.loaded is not None:
                located = located.located(f"run {str(self.loaded.run.path)!r}")
            raise located from error.__cause__


def agent_of(
    nets: Sequence[RaggedNet], game: Game, config: TrainConfig, **settings: Any
) -> NetworkAgent:
    """Return an agent for all rows of a game.

    Args:
        nets: The networks, in the order of their populations.
        game: The game.
        config: Settings, of which the precision is used.
        **settings: Further arguments of ``NetworkAgent``.
    """
    seats = game.whole(1) if len(nets) > 1 else 1
    return NetworkAgent(nets, seats=seats, precision=config.precision, **settings)


def decisions_of(output: NetOutput) -> list[Decision]:
    """Return the decision of each frame of a network's output."""
    chosen, probs, normal = {}, {}, {}
    for name, action in output.actions.items():
        ends = action.chosen.offsets.cpu().numpy()[1:-1]
        chosen[name] = np.split(action.chosen.values.cpu().numpy(), ends)
        if action.mean is None:
            probs[name] = _probs(action)
        else:
            assert action.std is not None
            parts = (np.split(part.cpu().numpy(), ends) for part in (action.mean, action.std))
            normal[name] = list(zip(*parts, strict=True))
    return [
        Decision(
            chosen={name: parts[frame] for name, parts in chosen.items()},
            probs={name: parts[frame] for name, parts in probs.items()},
            value=value,
            normal={name: parts[frame] for name, parts in normal.items()},
        )
        for frame, value in enumerate(output.value.tolist())
    ]


def _probs(action: ActionOutput) -> list[npt.NDArray[np.float32]]:
    """Return the probabilities of each frame. Shape of each: (A, C), or (A, E) for a selection."""
    assert action.probs is not None
    if isinstance(action.probs, Tensor):
        offsets = action.chosen.offsets.cpu().numpy()
        return np.split(action.probs.cpu().numpy(), offsets[1:-1])
    pairs = np.split(action.probs.values.cpu().numpy(), action.probs.offsets.cpu().numpy()[1:-1])
    actors = action.chosen.lengths.tolist()
    return [p.reshape(count, -1 if count else 0) for p, count in zip(pairs, actors, strict=True)]
