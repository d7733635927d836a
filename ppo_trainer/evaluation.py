"""How good is a network? Fresh episodes, beside a scripted player and random play."""

from __future__ import annotations

import importlib
import inspect
import json
import math
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from entity_env import VecObs
from entity_env.errors import shorten
from entity_env.frame import RESERVED_METRICS
from entity_env.play import (
    Policy,
    VecPolicy,
    play_episodes,
    play_rows,
    play_scripted,
    random_policy,
)
from ppo_trainer.collect import autocast, check_output
from ppo_trainer.config import TrainConfig
from ppo_trainer.environments import Game
from ppo_trainer.errors import ConfigError
from ppo_trainer.run_folder import RunFolder, writing
from ppo_trainer.screen import complain
from ppo_trainer.seeding import derived_seed
from ppo_trainer.tensors import to_actions, to_batch
from ragged_net import RaggedNet

__all__ = [
    "Evaluation",
    "evaluate",
    "evaluate_all",
    "load_scripted",
    "network_policy",
    "table",
    "write_evaluation",
]

_Z = 1.959964  # two-sided 95% quantile of the normal distribution


@dataclass(frozen=True)
class Evaluation:
    """The metrics of every episode that one player played. Shape of each: (episodes,)."""

    player: str
    metrics: Mapping[str, npt.NDArray[np.float64]] = field(repr=False)

    def mean(self, name: str) -> float:
        """The mean of a metric."""
        return float(np.nanmean(self.metrics[name]))

    def interval(self, name: str) -> tuple[float, float]:
        """A 95% confidence interval of the mean.

        Wilson's interval (1927) for an environment's own metric that is always 0 or 1: it stays
        within 0 and 1 and means something even if all episodes are won. The normal one else.
        """
        values = self.metrics[name][~np.isnan(self.metrics[name])]
        n, mean = len(values), float(values.mean())
        if name not in RESERVED_METRICS and np.isin(values, (0.0, 1.0)).all():
            centre = (mean + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
            half = _Z / (1 + _Z**2 / n) * math.sqrt(mean * (1 - mean) / n + _Z**2 / (4 * n**2))
            return max(0.0, centre - half), min(1.0, centre + half)
        half = _Z * float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else math.inf
        return mean - half, mean + half

    @property
    def episodes(self) -> int:
        """The number of episodes."""
        return len(self.metrics["episodic_length"])

    def count(self, name: str) -> int:
        """The number of episodes that have a metric."""
        return int((~np.isnan(self.metrics[name])).sum()) if name in self.metrics else 0

    def summary(self) -> dict[str, Any]:
        """Means and intervals as JSON values; the interval of a single number is null."""
        return {
            "player": self.player,
            "episodes": self.episodes,
            **{
                name: {
                    "mean": self.mean(name),
                    "interval95": list(self.interval(name)) if self.count(name) > 1 else None,
                    "count": self.count(name),
                }
                for name in self.metrics
            },
        }

    def cell(self, name: str, digits: int) -> str:
        """A metric and its interval as text, and the number of episodes where some lack it."""
        if not self.count(name):
            return "-"
        if self.count(name) == 1:
            return f"{self.mean(name):.{digits}f}"
        low, high = self.interval(name)
        text = f"{self.mean(name):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
        missing = self.count(name) < self.episodes
        return f"{text} of {self.count(name):,}" if missing else text


def network_policy(
    net: RaggedNet, config: TrainConfig, generator: torch.Generator, *, greedy: bool
) -> VecPolicy:
    """The network as a policy over a ``VecEnv``."""

    @torch.no_grad()
    def act(obs: VecObs) -> Mapping[str, Any]:
        with autocast(generator.device, config):
            output = net(to_batch(obs, generator.device), generator=generator, greedy=greedy)
        return to_actions(check_output(output))

    return act


def evaluate(
    net: RaggedNet,
    game: Game,
    config: TrainConfig,
    device: torch.device,
    episodes: int,
    *,
    greedy: bool,
    number: int = 0,
) -> Evaluation:
    """Play fresh episodes, which the training never sees; ``number`` tells evaluations apart."""
    seed = derived_seed(config.seed, "evaluation", number)
    generator = torch.Generator(device).manual_seed(seed)
    policy = network_policy(net, config, generator, greedy=greedy)
    player = "agent, greedy" if greedy else "agent, sampled"
    return Evaluation(player, _play(game, policy, config, episodes, seed))


def evaluate_all(
    net: RaggedNet, game: Game, config: TrainConfig, device: torch.device, episodes: int
) -> list[Evaluation]:
    """The agent greedy and sampled, beside the scripted player, if any, and random play."""
    seed = derived_seed(config.seed, "evaluation")
    results = [
        evaluate(net, game, config, device, episodes, greedy=greedy) for greedy in (True, False)
    ]
    if config.eval.scripted is not None:
        scripted = load_scripted(config.eval.scripted)
        # A script knows the game, not what the network sees of it.
        whole = replace(game, shown=None)
        limit = config.eval.max_steps
        try:
            metrics = play_scripted(whole, scripted, episodes, seed, max_steps=limit)
            results.append(Evaluation("scripted player", metrics))
        except Exception as error:  # a function of the user's, after all of the training
            complain("".join(traceback.format_exception(error, limit=-3)).rstrip())
            complain(f"no scripted player: eval.scripted={config.eval.scripted} failed")
    metrics = _play(game, random_policy(seed), config, episodes, seed)
    return [*results, Evaluation("random play", metrics)]


def _play(
    game: Game, policy: VecPolicy, config: TrainConfig, episodes: int, seed: int
) -> dict[str, npt.NDArray[np.float64]]:
    rows, max_steps = config.rollout.num_envs, config.eval.max_steps
    if game.is_native:
        return play_rows(game.rows, policy, episodes, seed, rows=rows, max_steps=max_steps)
    return play_episodes(game.alone, policy, episodes, seed, rows=rows, max_steps=max_steps)


def table(results: list[Evaluation]) -> str:
    """The results as lines of text: win rate, if there is one, reward and length."""
    columns = [("win", "win rate", 3), ("episodic_reward", "reward", 3)]
    columns.append(("episodic_length", "length", 2))
    columns = [column for column in columns if any(column[0] in r.metrics for r in results)]
    rows = [["95% intervals", *(label for _, label, _ in columns)]]
    for result in results:
        rows.append([result.player, *(result.cell(name, digits) for name, _, digits in columns)])
    widths = [max(24, 2 + max(map(len, column))) for column in zip(*rows, strict=True)][1:]
    return "\n".join(f"{row[0]:<17}" + "".join(map(str.rjust, row[1:], widths)) for row in rows)


def write_evaluation(run: RunFolder, steps: int, results: list[Evaluation]) -> None:
    """Keep the results in the run folder."""
    facts = {"steps": steps, "players": [result.summary() for result in results]}
    with writing(run.evaluation_file):
        run.evaluation_file.write_text(json.dumps(facts, indent=1) + "\n")


def load_scripted(path: str) -> Policy:
    """The function at a dotted path, from Observation to actions; imports its module."""
    module_name, _, name = path.rpartition(".")
    try:
        if not all(part.isidentifier() for part in path.split(".")):
            raise ImportError("no dotted path")
        policy: Policy = getattr(importlib.import_module(module_name), name)
    except Exception as error:  # a module of the user's may raise anything
        raise ConfigError(
            f"eval.scripted: {path!r} cannot be imported: {type(error).__name__}: {error}",
            expected=_SCRIPTED,
        ) from error
    if not callable(policy) or not _takes_an_observation(policy):
        raise ConfigError(
            f"eval.scripted: {path!r} is no scripted player",
            expected=_SCRIPTED,
            received=shorten(policy),
        )
    return policy


def _takes_an_observation(policy: Policy) -> bool:
    """Whether it may be called with one; nothing that comes with Python itself takes any."""
    if inspect.isclass(policy) or inspect.isbuiltin(policy):
        return False
    try:
        inspect.signature(policy).bind("observation")
    except (TypeError, ValueError):
        return False
    return True


_SCRIPTED = (
    "a dotted path such as ragged_envs.minesweeper_script.walk_and_defuse, of a function from "
    "Observation to actions, or null"
)
