"""Evaluate a network in fresh episodes, beside a scripted player and random play."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from entity_env import VecEnv, VecObs
from entity_env.agent import RandomAgent
from entity_env.errors import FAILURES
from entity_env.player.episodes import (
    Policy,
    VecPolicy,
    play_episodes,
    play_rows,
    play_scripted,
    random_policy,
)
from entity_env.player.play_budget import PlayBudget
from entity_env.player.scripted_agent import load_script
from entity_env.rows.slow_calls import naming_slow_calls
from ppo_trainer.config import TrainConfig
from ppo_trainer.environments import Game
from ppo_trainer.errors import ConfigError
from ppo_trainer.experience.collect import autocast, check_output
from ppo_trainer.experience.row_memory import RowMemory
from ppo_trainer.experience.tensors import to_actions, to_batch
from ppo_trainer.machine.screen import complain
from ppo_trainer.machine.seeding import derived_seed
from ppo_trainer.play.sides import play_sides
from ppo_trainer.reporting.evaluation import Evaluation
from ppo_trainer.reporting.evaluation_progress import EvaluationProgress
from ragged_net import RaggedNet

__all__ = [
    "NetworkPolicy",
    "evaluate",
    "evaluate_all",
    "network_policy",
]


class NetworkPolicy:
    """The network as a policy over a ``VecEnv``; what it remembers belongs to the rows.

    Args:
        net: The network.
        config: Says in which precision it runs.
        generator: Draws the actions.
        greedy: Take the likeliest choices instead.
    """

    def __init__(
        self, net: RaggedNet, config: TrainConfig, generator: torch.Generator, *, greedy: bool
    ) -> None:
        self._net, self._config = net, config
        self._generator, self._greedy = generator, greedy
        self._memory: RowMemory | None = None

    def reset(self) -> None:
        """Forget everything: the next observation is the first one of its rows."""
        self._memory = None

    @torch.no_grad()
    def __call__(self, obs: VecObs) -> Mapping[str, Any]:
        """Act in the rows that are asked."""
        if self._memory is None:
            self._memory = RowMemory(self._net, len(obs))
        memory, device = self._memory, self._generator.device
        memory.cut(obs.done)
        with autocast(device, self._config):
            output = self._net(
                to_batch(obs, device),
                memory=memory.of(obs.rows),
                generator=self._generator,
                greedy=self._greedy,
            )
        memory.keep(obs.rows, output)
        return to_actions(check_output(output))


def network_policy(
    net: RaggedNet, config: TrainConfig, generator: torch.Generator, *, greedy: bool
) -> NetworkPolicy:
    """Return the network as a policy over a ``VecEnv``."""
    return NetworkPolicy(net, config, generator, greedy=greedy)


def evaluate(
    net: RaggedNet,
    game: Game,
    config: TrainConfig,
    device: torch.device,
    episodes: int,
    *,
    greedy: bool,
    number: int = 0,
    budget: PlayBudget | None = None,
) -> Evaluation:
    """Play fresh episodes, which the training never sees; ``number`` tells evaluations apart."""
    seed = derived_seed(config.seed, "evaluation", number)
    generator = torch.Generator(device).manual_seed(seed)
    policy = network_policy(net, config, generator, greedy=greedy)
    budget = PlayBudget() if budget is None else budget
    metrics = _play(game, policy, config, episodes, seed, budget)
    return Evaluation(_player(greedy), metrics, episodes, budget.cut_off)


def evaluate_all(
    net: RaggedNet,
    game: Game,
    config: TrainConfig,
    device: torch.device,
    episodes: int,
    *,
    only_greedy: bool = False,
) -> list[Evaluation]:
    """Return the agent greedy and sampled, beside the scripted player, if any, and random play.

    Args:
        net: The agent.
        game: What it plays.
        config: Of ``config.eval`` it takes ``scripted``, ``max_steps`` and ``seconds``.
        device: Where the network is.
        episodes: The number of episodes of each player.
        only_greedy: Leave out sampled and random play.
    """
    seed = derived_seed(config.seed, "evaluation")
    players: dict[str, Callable[..., Evaluation | None]] = {}
    for greedy in (True,) if only_greedy else (True, False):
        players[_player(greedy)] = partial(
            evaluate, net, game, config, device, episodes, greedy=greedy
        )
    if config.eval.scripted is not None:
        scripted = load_script(config.eval.scripted, "eval.scripted", ConfigError)
        players[_SCRIPT] = partial(_evaluate_script, game, scripted, config, episodes, seed)
    if not only_greedy:
        players[_RANDOM] = partial(_evaluate_random, game, config, episodes, seed)
    results, start = [], time.monotonic()
    with (
        naming_slow_calls(config.rollout.slow_after, complain),
        EvaluationProgress(list(players), episodes, config.eval.seconds) as progress,
    ):
        for number, (name, play) in enumerate(players.items()):
            left = config.eval.seconds - (time.monotonic() - start)
            # What one player does not need is left to the others; each plays at least a step.
            share = max(left / (len(players) - number), 1e-9) if config.eval.seconds else 0.0
            results.append(play(budget=PlayBudget(share, progress.heard(name))))
    return [result for result in results if result is not None]


_SCRIPT, _RANDOM = "scripted player", "random play"


def _player(greedy: bool) -> str:
    return "agent, greedy" if greedy else "agent, sampled"


def _evaluate_script(
    game: Game,
    scripted: Policy,
    config: TrainConfig,
    episodes: int,
    seed: int,
    budget: PlayBudget,
) -> Evaluation | None:
    """Evaluate the scripted player; return None if it fails."""
    # A script knows the game, not what the network sees of it.
    whole = replace(game, shown=None)
    limit = config.eval.max_steps
    try:
        metrics = play_scripted(whole, scripted, episodes, seed, max_steps=limit, budget=budget)
    except FAILURES as error:
        complain("".join(traceback.format_exception(error, limit=-3)).rstrip())
        complain(f"no scripted player: eval.scripted={config.eval.scripted} failed")
        return None
    return Evaluation(_SCRIPT, metrics, episodes, budget.cut_off)


def _evaluate_random(
    game: Game, config: TrainConfig, episodes: int, seed: int, budget: PlayBudget
) -> Evaluation:
    metrics = _play(game, random_policy(seed), config, episodes, seed, budget)
    return Evaluation(_RANDOM, metrics, episodes, budget.cut_off)


def _play(
    game: Game,
    policy: VecPolicy,
    config: TrainConfig,
    episodes: int,
    seed: int,
    budget: PlayBudget,
) -> dict[str, npt.NDArray[np.float64]]:
    rows, max_steps = config.rollout.num_envs, config.eval.max_steps
    if game.is_native and game.has_seats:
        with game.rows(game.whole(1), seed=0) as example:
            chance = RandomAgent(example.obs_space(), example.action_space(), seed)
        return play_sides(policy, game, config, episodes, chance, seed=seed, budget=budget)
    if game.is_native or game.replays is not None:

        def fresh_rows(count: int, seed: int) -> VecEnv:
            if isinstance(policy, NetworkPolicy):
                policy.reset()
            return game.rows(count, seed)

        return play_rows(
            fresh_rows, policy, episodes, seed, rows=rows, max_steps=max_steps, budget=budget
        )
    return play_episodes(
        game.alone, policy, episodes, seed, rows=rows, max_steps=max_steps, budget=budget
    )
