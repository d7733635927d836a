"""Self-play: the opponents of the network that is trained, and their changes over the run."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from entity_env import VecEnv
from entity_env.agent import Agent
from entity_env.errors import DAMAGES, CheckpointError, SettingError, shorten
from ppo_trainer.config import TrainConfig
from ppo_trainer.environments import Game
from ppo_trainer.learner.optimizers import frozen_copy
from ppo_trainer.machine.seeding import derived_seed
from ppo_trainer.players.network_agent import NetworkAgent
from ppo_trainer.players.opponent_rows import Lineup, OpponentRows
from ppo_trainer.players.opponents import (
    make_opponent,
    opponent_labels,
    read_snapshot,
    remove_others,
    versions_named_in,
    write_snapshot,
)
from ppo_trainer.players.population_rows import PopulationRows
from ppo_trainer.players.reward_rows import RewardRows
from ppo_trainer.runs.checkpoint import own_checkpoints
from ppo_trainer.runs.folder import RunFolder
from ragged_net import RaggedNet

__all__ = ["SelfPlay", "after_win", "probabilities"]

F64 = npt.NDArray[np.float64]

_QUALITY_STEP = 0.01
"""Step by which a win lowers the quality score of an opponent."""
_MOST_GAMES = 200
"""Number of last games from which a win rate is computed."""


class SelfPlay:
    """A ``Matchmaker`` that draws opponents, keeps earlier versions and changes stages.

    Args:
        config: Settings of the run.
        game: The game.
        net: Network that is trained.
        device: Device of the network.

    Raises:
        SettingError: An opponent does not exist, or the game is for one player.
    """

    def __init__(
        self, config: TrainConfig, game: Game, net: RaggedNet, device: torch.device
    ) -> None:
        selfplay = config.selfplay
        self._config, self._settings, self._net = config, selfplay, net
        self._sides = game.sides()
        seed = derived_seed(config.seed, "self-play")
        self._rng = np.random.default_rng(seed)
        self._generator = torch.Generator(device).manual_seed(seed)
        names = list(selfplay.opponents)
        if not names and selfplay.mode in ("stages", "fixed"):
            names = ["random"]
        if len(set(names)) < len(names):
            raise SettingError("selfplay.opponents contains an opponent twice", received=names)
        spaces = net.obs_space, net.action_space
        self._agents: dict[str, Agent] = {}
        for number, name in enumerate(names):
            seed = derived_seed(config.seed, "opponent", number)
            self._agents[name] = make_opponent(name, *spaces, seed=seed, device=str(device))
        self._labels = opponent_labels(names)
        self._named = names
        self._quality = dict.fromkeys(names if selfplay.mode == "pool" else [], 0.0)
        # The opponent of the pool in this update, with its ``Lineup.ratio``: several would each
        # need a pass of a network in every step.
        self._drawn: tuple[str, float] | None = None
        self._versions: list[str] = []
        self._named_in: dict[str, set[str]] = {}  # the versions that each checkpoint needs
        self._stage, self._stage_begun = 0, 0
        self._scores: deque[float] = deque(maxlen=_MOST_GAMES)
        self._opponent_rows: OpponentRows | None = None
        self._reward_rows: RewardRows | None = None

    @classmethod
    def of(
        cls, config: TrainConfig, game: Game, net: RaggedNet, device: torch.device
    ) -> SelfPlay | None:
        """Return the self-play of the settings, or None if it would leave the rows unchanged."""
        selfplay = config.selfplay
        if selfplay.mode == "mirror" and not selfplay.shapes_rewards:
            return None
        if not game.has_seats:
            raise SettingError(
                f"selfplay is set, and {game.name} is not a game for several players",
                expected="selfplay=mirror, which has no effect there, or a game with seats",
                hint="some games with built-in opponents have variants for two players, such as "
                "env=minirts_duel, env=capture_the_flag_duel",
                received=f"selfplay.mode={selfplay.mode}",
            )
        return cls(config, game, net, device)

    def around(self, vec_env: VecEnv) -> VecEnv:
        """Return the rows that the learner trains on."""
        rows = vec_env
        if self._settings.shapes_rewards:
            rows = self._reward_rows = RewardRows(rows, self._sides, self._settings)
        if self._settings.policies > 1:
            seed = derived_seed(self._config.seed, "population")
            drawn = None if self._settings.seats_have_policies else seed
            return PopulationRows(rows, self._sides, self._settings.size, drawn)
        if self._settings.mode != "mirror":
            rows = self._opponent_rows = OpponentRows(rows, self._sides, self)
        return rows

    # The methods of ``Matchmaker``.

    def draw(self, game: int) -> Lineup:
        """Return the players of a game that begins."""
        settings = self._settings
        side = int(self._rng.integers(len(self._sides)))
        if settings.mode == "stages":
            return Lineup(self._stage_opponent(), side)
        if settings.mode == "fixed":
            return Lineup(self._named[int(self._rng.integers(len(self._named)))], side)
        if not self._quality or self._rng.random() >= settings.past:
            return Lineup()
        if self._drawn is None or self._drawn[0] not in self._quality:
            self._drawn = self._draw_from_pool()
        name, ratio = self._drawn
        return Lineup(name, side, ratio)

    def _draw_from_pool(self) -> tuple[str, float]:
        """Return an opponent of the pool, which is not empty, and its ``Lineup.ratio``."""
        names = list(self._quality)
        chances = probabilities(self._settings.choose, list(self._quality.values()))
        index = self._rng.choice(len(names), p=chances)
        return names[index], float(len(names) * chances[index])

    def agent(self, name: str) -> Agent:
        """Return the opponent with this name."""
        return self._agents[name]

    def shown_name(self, name: str) -> str:
        """Return an opponent's name in metrics; all earlier versions are called ``past``."""
        if name in self._labels:
            return self._labels[name]
        return name if self._settings.mode == "stages" else "past"

    def ended(self, lineup: Lineup, score: float) -> None:
        """Update the scores with the result of a game against an opponent."""
        name = lineup.opponent
        if self._settings.mode == "stages":
            if name == self._stage_opponent():
                self._scores.append(score)
        elif name in self._quality and score > 0.5:
            self._quality[name] = after_win(self._quality[name], _QUALITY_STEP, lineup.ratio)

    # The methods that the training loop calls.

    def before_update(self, progress: float) -> None:
        """Update the values that depend on the progress of the run, 0 to 1."""
        if self._reward_rows is not None:
            self._reward_rows.progress = progress
        if self._settings.mode == "pool" and self._quality:
            self._drawn = self._draw_from_pool()

    def after_update(self, run: RunFolder, update: int, steps: int) -> dict[str, float]:
        """Keep a version or begin a stage if it is time for it; return the numbers to log."""
        settings = self._settings
        if settings.mode == "pool":
            if update % settings.every == 0:
                self._add_version(run, update, steps)
            scores = list(self._quality.values())
            spread = max(scores) - min(scores) if scores else 0.0
            return {
                "selfplay/versions": float(len(self._versions)),
                "selfplay/quality_spread": spread,
            }
        if settings.mode != "stages":
            return {}
        if self._is_stage_over(steps):
            self._stage, self._stage_begun = self._stage + 1, steps
            self._scores.clear()
            if self._stage >= len(self._named):
                self._keep(run, self._stage_opponent(), update, steps)
        numbers = {"selfplay/stage": float(self._stage)}
        if self._scores:
            numbers["selfplay/stage_win"] = float(np.mean(self._scores))
        return numbers

    def remove_unneeded(self, run: RunFolder) -> None:
        """Remove the versions that no kept checkpoint needs; keep all if one cannot be read."""
        if self._settings.plays_itself:
            return
        known = self._named_in
        with suppress(CheckpointError):
            self._named_in = {
                folder.name: known.get(folder.name) or versions_named_in(folder)
                for folder in own_checkpoints(run)
            }
            remove_others(run, set().union(*self._named_in.values()))

    def get_state(self) -> dict[str, Any]:
        """Return the state without the players of rows, as JSON values."""
        self._forget_agents()
        agents = {n: a.get_state() for n, a in self._agents.items() if hasattr(a, "get_state")}
        return {
            "mode": self._settings.mode,
            "rng": self._rng.bit_generator.state,
            "agents": agents,
            "versions": self._versions,
            "playing": self._playing(),
            "quality": self._quality,
            "drawn": self._drawn,
            "stage": [self._stage, self._stage_begun],
            "scores": list(self._scores),
        }

    def set_state(self, state: Any, run: RunFolder, *, draws_on: bool = True) -> bool:
        """Restore a state of ``get_state``, and return True if its games can continue.

        They cannot if the settings now name another mode or other opponents, or if ``draws_on`` is
        False: on another kind of device the random numbers of networks differ.

        Raises:
            CheckpointError: The state is damaged, or a version does not exist any more.
        """
        if not isinstance(state, Mapping) or state.get("mode") != self._settings.mode:
            return False
        try:
            self._rng.bit_generator.state = state["rng"]
            self._versions = [str(name) for name in state["versions"]]
            playing = [str(name) for name in state["playing"]]
            quality = {str(name): float(score) for name, score in state["quality"].items()}
            self._stage, self._stage_begun = map(int, state["stage"])
            self._scores = deque(map(float, state["scores"]), _MOST_GAMES)
            agents = dict(state["agents"])
            drawn = state["drawn"]
            self._drawn = None if drawn is None else (str(drawn[0]), float(drawn[1]))
        except DAMAGES as error:
            raise CheckpointError(
                f"the state of self-play is damaged: {type(error).__name__}: {error}",
                received=shorten(state),
            ) from error
        for name in (*self._versions, *playing):
            self._add_agent(name, read_snapshot(run, name, self._net))
        kept = {name: score for name, score in quality.items() if name in self._agents}
        self._quality = {**self._quality, **kept} if self._settings.mode == "pool" else {}
        if not draws_on:
            return False
        for name, agent_state in agents.items():
            if name in self._agents and hasattr(self._agents[name], "set_state"):
                self._agents[name].set_state(agent_state)  # type: ignore[attr-defined]
        known = {name for name in agents if name in self._agents}
        return known == set(agents) and list(self._quality) == list(quality)

    def _stage_opponent(self) -> str:
        if self._stage < len(self._named):
            return self._named[self._stage]
        return f"stage_{self._stage}"

    def _is_stage_over(self, steps: int) -> bool:
        settings = self._settings
        is_beaten = (
            settings.until_win > 0
            and len(self._scores) == _MOST_GAMES
            and float(np.mean(self._scores)) >= settings.until_win
        )
        return is_beaten or 0 < settings.until_steps <= steps - self._stage_begun

    def _add_version(self, run: RunFolder, update: int, steps: int) -> None:
        name = f"step_{steps:012d}"
        versions = [self._quality[version] for version in self._versions]
        self._keep(run, name, update, steps)
        self._quality[name] = max(versions, default=0.0)
        while len(self._versions) > self._settings.keep:
            del self._quality[self._versions.pop(0)]

    def _keep(self, run: RunFolder, name: str, update: int, steps: int) -> None:
        if self._settings.mode == "stages":
            self._versions.clear()
        net = frozen_copy(self._net)
        write_snapshot(run, name, net, update, steps)
        self._versions.append(name)
        self._add_agent(name, net)

    def _add_agent(self, name: str, net: RaggedNet) -> None:
        precision = self._config.precision
        self._agents[name] = NetworkAgent(net, generator=self._generator, precision=precision)

    def _playing(self) -> list[str]:
        """Return the versions that have left the pool and still play games."""
        lineups = [] if self._opponent_rows is None else self._opponent_rows.lineups
        playing = {lineup.opponent for lineup in lineups if lineup.opponent is not None}
        return sorted(playing.difference(self._versions, self._named))

    def _forget_agents(self) -> None:
        """Drop the networks of versions that are not needed any more."""
        for name in self._agents.keys() - {*self._named, *self._versions, *self._playing()}:
            del self._agents[name]


def probabilities(choose: str, qualities: Sequence[float]) -> F64:
    """Return the probability of each opponent, the oldest one first. Shape: (N,).

    Args:
        choose: ``uniform``: equal probabilities. ``recent``: each version half the probability of
            the next one. ``quality``: softmax of the quality scores.
        qualities: Quality scores. Shape: (N,).
    """
    scores = np.asarray(qualities, np.float64)
    if choose == "uniform":
        logits = np.zeros(len(scores))
    elif choose == "recent":
        logits = np.log(2.0) * np.arange(len(scores))
    else:
        logits = scores
    weights = np.exp(logits - logits.max(initial=-np.inf))
    chances: F64 = weights / weights.sum()
    return chances


def after_win(quality: float, step: float, ratio: float) -> float:
    """Return the quality score of an opponent after it was beaten: ``q - step / (N p)``.

    A loss leaves the score unchanged. The division by the probability compensates for opponents
    that are rarely drawn. Berner et al. 2019, arXiv:1912.06680, appendix N, with step 0.01.

    Args:
        quality: Quality score q before the game.
        step: Amount that a win subtracts.
        ratio: N p, the number of opponents times the probability with which this one was drawn.
    """
    return quality - step / ratio
