"""A trained network as an agent for single observations.

agent = load_agent("runs/minesweeper")
actions = agent.act(env.reset())  # input of env.act, with probabilities

Call agent.reset() at the beginning of each game, for networks with a memory.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from entity_env import (
    Action,
    ActionSpace,
    Environment,
    MultiPlayerEnvironment,
    Observation,
    ObsSpace,
    VecObs,
)
from entity_env.agent import Decision, decided_actions
from entity_env.batching.frame import Frame
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.vec_obs import batch_frames
from entity_env.errors import EntityEnvError, ObservationError, SettingError, counted, shorten
from entity_env.registry import Factory
from entity_env.wrappers.feature_filter import ObservationFilter
from ppo_trainer.experience.acting import autocast, check_output
from ppo_trainer.machine.seeding import derived_seed
from ppo_trainer.machine.torch_state import usual_torch
from ppo_trainer.play.game_memory import GameMemory
from ppo_trainer.players.network_agent import NetworkAgent, copy_beside
from ppo_trainer.runs.checkpoint import latest_checkpoint
from ppo_trainer.runs.load_run import LoadedNet, find_net, game_of, load_net, load_policy
from ragged_net import ActionOutput, EntityBatch
from ragged_net.config import check_sharpness

__all__ = ["RunAgent", "load", "load_agent"]


@usual_torch()
def load_agent(
    run: str | Path,
    env: Factory | None = None,
    *,
    greedy: bool = False,
    seed: int | None = None,
    device: str = "auto",
    trust: bool = False,
    temperature: float = 1.0,
    top_k: int = 0,
    policy: int = 0,
) -> RunAgent:
    """Load the network of a run's newest checkpoint as an agent; safe with runs of other people.

    No environment is imported unless ``trust`` is set and the run comes from an old version that
    did not save its spaces.

    Args:
        run: Run folder, or ``<run>/best`` for its best network.
        env: Class of the environment of the observations, needed if it shows more than the network
            was trained on, or differs from the environment of the run.
        greedy: True to take the most likely choices. By default the agent draws as in training,
            and plays about as well as ``agent, sampled`` of the evaluation.
            ``act(observation, greedy=True)`` takes the most likely choice once.
        seed: Seed of the draws; None derives it from the seed of the run, so that two agents of one
            run draw the same numbers.
        device: Device of the network: ``auto``, ``cpu`` or ``cuda``.
        trust: Consent to import the environment that an old run names.
        temperature: Divisor of the logits. Below 1 the probabilities become more concentrated,
            above 1 more even. The variance of continuous actions is multiplied by it.
        top_k: Number of most likely choices among which to draw; 0 for all choices.
        policy: Number of a policy of a population, also written as ``<run>:1``.

    Raises:
        NetConfigError: ``temperature`` or ``top_k`` is out of range.
        RunFolderError: The folder is not a run, or is an old one without saved spaces.
        CheckpointError: There is no checkpoint, or it does not fit the environment.
    """
    if policy:
        run = f"{run}:{policy}"
    loaded: LoadedNet | None = None
    shown: ObsSpace | None = None
    if env is None:
        loaded = find_net(run, device) if trust else load_net(run, device)
    if loaded is None:
        loaded = with_env = load_policy(run, env, device, trust=trust)
        shown = with_env.whole
    return RunAgent(
        loaded, shown=shown, greedy=greedy, seed=seed, temperature=temperature, top_k=top_k
    )


def load(path: str, seed: int, trust: bool = False) -> RunAgent:
    """Return the agent of a run; this is the plug-in of ``entity_env.agent.load_agent``."""
    return load_agent(path, seed=seed, trust=trust)


class RunAgent:
    """An agent that decides with a network, one frame at a time.

    If the network has a memory, ``act`` keeps a state for each ``game`` until ``reset`` or an
    observation with ``done``.

    Args:
        loaded: Network and its run.
        shown: Space of the observations; None for that of the network.
        greedy: True to take the most likely choices instead of drawing.
        seed: Seed of the draws; None derives it from the seed of the run.
        temperature: See ``load_agent``.
        top_k: See ``load_agent``.
    """

    def __init__(
        self,
        loaded: LoadedNet,
        *,
        shown: ObsSpace | None = None,
        greedy: bool = False,
        seed: int | None = None,
        temperature: float = 1.0,
        top_k: int = 0,
    ) -> None:
        check_sharpness(temperature, top_k)
        self.loaded = loaded
        self.greedy = greedy
        self.temperature, self.top_k = temperature, top_k
        if seed is None:
            seed = derived_seed(loaded.config.seed, "agent")
        self._generator = torch.Generator(loaded.device).manual_seed(seed)
        spaces = loaded.net.obs_space, loaded.net.action_space
        self._shown = shown
        self._reader = FrameReader(*spaces)
        self._memory = GameMemory(loaded.net)
        self._rows: NetworkAgent | None = None  # plays rows of a VecEnv
        self._filter = ObservationFilter(shown or spaces[0], spaces[1], spaces[0])

    def __deepcopy__(self, memo: dict[int, Any]) -> RunAgent:
        """Return an agent that shares the network, and has its own random numbers and memory."""
        # The agent of rows shares the network, too, and draws from the copy of the generator.
        return copy_beside(self, self.loaded, memo)

    def of_seat(self, seat: int) -> RunAgent:
        """Return a new agent with the policy that a seat belongs to, where each has its own."""
        nets = self.loaded.nets
        loaded = replace(self.loaded, net=nets[seat % len(nets)], others=())
        return RunAgent(
            loaded,
            shown=self._shown,
            greedy=self.greedy,
            temperature=self.temperature,
            top_k=self.top_k,
        )

    @property
    def version(self) -> str:
        """The name of the loaded checkpoint."""
        return self.loaded.checkpoint.name

    def is_newest(self) -> bool:
        """Return False if the run has a newer checkpoint."""
        run, own = self.loaded.run, self.loaded.checkpoint
        return own.parent != run.checkpoints or own == latest_checkpoint(run)

    def make_game(self, trust: bool = False) -> Environment | MultiPlayerEnvironment:
        """Return the game of the training, with all of its seats if it has several.

        Args:
            trust: Consent to import the environment that the run of somebody else names.
        """
        return game_of(self.loaded, trust=trust).played()

    def seed(self, seed: int) -> None:
        """Seed the random numbers."""
        self._generator.manual_seed(seed)

    def __repr__(self) -> str:
        """Return a text with the run, the settings of draws and the device."""
        how = "greedy" if self.greedy else "draws its choices"
        if self.temperature != 1.0:
            how += f", temperature {self.temperature:g}"
        if self.top_k:
            how += f", top_k {self.top_k}"
        return f"RunAgent({str(self.loaded.run.path)!r}, {how}, {self.loaded.device})"

    @property
    def obs_space(self) -> ObsSpace:
        """The observation space of the network."""
        return self._reader.obs_space

    @property
    def action_space(self) -> Mapping[str, ActionSpace]:
        """The action space of the network."""
        return self._reader.action_space

    def reset(self, game: Hashable | None = None) -> None:
        """Clear the memory of a game, or with None that of all games."""
        if game is None:
            self._memory.clear()
            self._rows = None
        else:
            self._memory.forget(game)

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
            temperature: See ``load_agent``; None for the agent's setting.
            top_k: See ``load_agent``; None for the agent's setting.
            game: Name of the game, if several games are played in turns.

        Raises:
            EntityEnvError: The observation does not fit the spaces of the run.
            NetConfigError: A temperature or ``top_k`` out of range.
        """
        return self._act([self._frame(observation)], greedy, temperature, top_k, [game])[0]

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
            EntityEnvError: An observation does not fit the spaces of the run.
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
        return self._act(frames, greedy, temperature, top_k, games) if frames else []

    @torch.no_grad()
    def value(self, observation: Observation, *, game: Hashable = 0) -> float:
        """Return the network's value of an observation of ``game``."""
        obs = batch_frames([self._frame(observation)], self.obs_space, self.action_space)
        batch = EntityBatch.from_obs(obs, self.loaded.device)
        with autocast(self.loaded.device, self.loaded.config):
            return float(self.loaded.net.value(batch, memory=self._memory.of([game]))[0])

    def act_rows(self, obs: VecObs) -> Mapping[str, ActionBuffer]:
        """Return the actions for the rows of a ``VecEnv``; each row has its own memory state.

        Args:
            obs: Observation with the spaces of the network; ``VecFeatureFilter`` removes what it
                does not know.
        """
        if self._rows is None:
            self._rows = NetworkAgent(
                self.loaded.net,
                greedy=self.greedy,
                temperature=self.temperature,
                top_k=self.top_k,
                precision=self.loaded.config.precision,
                generator=self._generator,
            )
        return self._rows.act_rows(obs)

    def decide(self, obs: VecObs) -> Decision:
        """Return the actions for the only row of ``obs``, with all probabilities and the value."""
        return self._decide(obs)[0]

    def decide_rows(self, obs: VecObs) -> list[Decision]:
        """Return a decision for each frame of ``obs``, where frames are unrelated positions.

        Raises:
            SettingError: The network has a memory.
        """
        if self.loaded.net.memory is not None:
            raise SettingError(
                "unrelated positions cannot be evaluated by a network with a memory",
                expected="a network without a memory",
                received=str(self.loaded.run.path),
            )
        return self._decide(obs, games=range(obs.num_frames))

    def _act(
        self,
        frames: list[Frame],
        greedy: bool | None,
        temperature: float | None,
        top_k: int | None,
        games: Sequence[Hashable],
    ) -> list[dict[str, Action]]:
        obs = batch_frames(frames, self.obs_space, self.action_space)
        decisions = self._decide(obs, greedy, temperature, top_k, games)
        return [
            self._filter.own_actions(decided_actions(frame, decision, self.action_space))
            for frame, decision in zip(frames, decisions, strict=True)
        ]

    @torch.no_grad()
    def _decide(
        self,
        obs: VecObs,
        greedy: bool | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        games: Sequence[Hashable] = (0,),
    ) -> list[Decision]:
        memory = self._memory.of(games)
        with autocast(self.loaded.device, self.loaded.config):
            batch = EntityBatch.from_obs(obs, self.loaded.device)
            output = self.loaded.net(
                batch,
                memory=memory,
                generator=self._generator,
                greedy=self.greedy if greedy is None else greedy,
                temperature=self.temperature if temperature is None else temperature,
                top_k=self.top_k if top_k is None else top_k,
            )
        self._memory.keep(games, output)
        for number in np.flatnonzero(obs.done):
            self._memory.forget(games[number])
        actions = check_output(output).actions
        chosen = {name: _chosen(own) for name, own in actions.items()}
        probs = {name: _probs(own) for name, own in actions.items() if own.mean is None}
        normal = {name: _normal(own) for name, own in actions.items() if own.mean is not None}
        return [
            Decision(
                chosen={name: parts[frame] for name, parts in chosen.items()},
                probs={name: parts[frame] for name, parts in probs.items()},
                value=value,
                normal={name: parts[frame] for name, parts in normal.items()},
            )
            for frame, value in enumerate(output.value.tolist())
        ]

    def _frame(self, observation: Observation, where: str | None = None) -> Frame:
        try:
            return self._reader.read(self._filter.show(observation))
        except EntityEnvError as error:
            located = error if where is None else error.located(where)
            run = f"run {str(self.loaded.run.path)!r}"
            raise located.located(run) from error.__cause__


def _chosen(action: ActionOutput) -> list[npt.NDArray[Any]]:
    """Return the choices of each frame, (A,), or the numbers of a continuous action, (A, K)."""
    offsets = action.chosen.offsets.cpu().numpy()
    return np.split(action.chosen.values.cpu().numpy(), offsets[1:-1])


def _normal(action: ActionOutput) -> list[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]:
    """Return the means and deviations of each frame. Shape of each: (A, K)."""
    ends = action.chosen.offsets.cpu().numpy()[1:-1]
    assert action.mean is not None
    assert action.std is not None
    means, stds = (np.split(part.cpu().numpy(), ends) for part in (action.mean, action.std))
    return list(zip(means, stds, strict=True))


def _probs(action: ActionOutput) -> list[npt.NDArray[np.float32]]:
    """Return the probabilities of each frame. Shape of each: (A, C), or (A, E) for a selection."""
    assert action.probs is not None
    if isinstance(action.probs, torch.Tensor):
        offsets = action.chosen.offsets.cpu().numpy()
        return np.split(action.probs.cpu().numpy(), offsets[1:-1])
    pairs = np.split(action.probs.values.cpu().numpy(), action.probs.offsets.cpu().numpy()[1:-1])
    actors = action.chosen.lengths.tolist()
    return [p.reshape(count, -1 if count else 0) for p, count in zip(pairs, actors, strict=True)]
