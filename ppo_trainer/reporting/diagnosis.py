"""Possible causes of missing progress, derived from the numbers of a run, and remedies."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ppo_trainer.reporting.evaluation import RANDOM, SCRIPTED, Evaluation

__all__ = ["diagnose"]

Records = Sequence[Mapping[str, Any]]
Players = Mapping[str, Evaluation]

_PARTS = 5
"""Number of equal parts into which the updates of a run are divided."""
_FEWEST_EPISODES = 30
"""Minimum number of episodes with which an evaluation is compared with random play."""
_MOST_LINES = 3
_FAR = 0.05
"""Part of the way from random to sampled play by which greedy play falls behind."""
_GOOD_WAY = 0.9
"""Part of the way from random play to the scripted player after which nothing is missing."""


def diagnose(
    records: Records,
    evaluations: Sequence[Evaluation] = (),
    rows: int = 50,
    *,
    meets_equals: bool = False,
    lacks_positions: bool = False,
    out_of_sight: Callable[[], Sequence[str]] = list,
) -> list[str]:
    """Return up to three lines about a run; none if it has learned.

    Args:
        records: Numbers of each update, as in ``metrics.jsonl``.
        evaluations: Players of its evaluation, if there was one.
        rows: Number of environments that play side by side. Until each of them has ended one or two
            episodes, only short episodes have ended, whose means are not representative.
        meets_equals: True if the network plays against itself or versions of itself, and one seat
            wins what others lose. Then it wins half of the games, however well it plays.
        lacks_positions: True if actors choose directions, and no entity has a position.
        out_of_sight: Returns the types of entities that vanish and come back; none if the network
            has a memory.

    Returns:
        The part of the way to the scripted player, or that nothing was learned; then possible
        causes, the most likely first, and remedies. For other runs at most that they still improve,
        or play worse when they are greedy.
    """
    if not records:
        return []
    if not any(record.get("episodes") for record in records):
        return ["no episode has ended: train longer, or end episodes with a TimeLimit"]
    players = {evaluation.player: evaluation for evaluation in evaluations}
    if meets_equals and not _are_measured(players):
        return [
            "it plays against itself, so that its rewards do not measure how well it plays; "
            "to measure it: python -m ppo_trainer.evaluate <run> --against random"
        ]
    seen = [] if meets_equals else records
    verdict = _way(players) or _no_better(records, players)
    rising, greedy = _rising(seen, rows), _greedy(players)
    hidden = out_of_sight() if verdict or greedy else ()
    memory = [_SIGHT.format(" and ".join(hidden))] if hidden else []
    if verdict is None:
        return [*rising, *greedy, *memory]
    causes = _same_rewards(seen, players) or [
        *([_POSITIONS] if lacks_positions else []),
        *rising,
        *memory,
        *greedy,
        *_explored(records),
        *_explained(records),
    ]
    return [verdict, *causes][:_MOST_LINES]


# ------------------------------------------------------------------------- is something missing?


def _are_measured(players: Players) -> bool:
    """Return True if the agent and random play have played enough to be compared."""
    chance = players.get(RANDOM)
    return bool(_agents(players) and chance and chance.episodes >= _FEWEST_EPISODES)


def _agents(players: Players) -> list[Evaluation]:
    return [agent for name, agent in players.items() if name.startswith("agent")]


def _way(players: Players) -> str | None:
    """Return a line if the agent plays between random play and a better scripted player."""
    script, name = players.get(SCRIPTED), "episodic_reward"
    if script is None or not _are_measured(players) or not _better(script, players[RANDOM], name):
        return None
    least, most = players[RANDOM].mean(name), script.mean(name)
    best = max(agent.mean(name) for agent in _agents(players))
    if not least <= best < least + _GOOD_WAY * (most - least):
        return None
    return (
        f"it has come {(best - least) / (most - least):.0%} of the way from random play to the "
        f"scripted player: rewards of {least:.3g}, {best:.3g} and {most:.3g}"
    )


def _no_better(records: Records, players: Players) -> str | None:
    """Return a line if the run plays no better than at random; None if that is not measured."""
    if not _are_measured(players):
        return None
    random, agents = players[RANDOM], _agents(players)
    better = ["win", "episodic_reward"]
    if _same_reward(records) < 0:  # longer lives are better if each costs the same
        better.append("episodic_length")
    if any(_better(agent, random, name) for agent in agents for name in better):
        return None
    name = "win" if random.count("win") else "episodic_reward"
    best = max((agent for agent in agents if agent.count(name)), key=lambda agent: agent.mean(name))
    label = "wins" if name == "win" else "a reward of"
    verdict = (
        "it plays worse than at random" if _better(random, best, name) else "it has not learned"
    )
    return f"{verdict}: {label} {best.mean(name):.3g}, and random play {random.mean(name):.3g}"


def _better(one: Evaluation, other: Evaluation, name: str) -> bool:
    """Return True if the mean of ``one`` is significantly greater, at the 95% level."""
    if min(one.count(name), other.count(name)) < 2:
        return False
    spread = 0.0
    for evaluation in (one, other):
        values = evaluation.metrics[name][~np.isnan(evaluation.metrics[name])]
        spread += float(values.var(ddof=1)) / len(values)
    return one.mean(name) - other.mean(name) > 2 * math.sqrt(spread)


# ------------------------------------------------------------------------------------- causes

_POSITIONS = (
    "its actors choose directions, and no entity has a position: if some have, declare them with "
    "Position among their features"
)
_SIGHT = "entities of {} vanish from sight and come back: try net.memory=lstm"


def _rising(records: Records, rows: int) -> list[str]:
    """Return a line if the last fifth of the updates is significantly better than the one before.

    Nothing is said of runs in which a fifth has too few updates or episodes.
    """
    ended = [r for r in records if r.get("episodes") and "episodic_reward" in r]
    if len(ended) < 2 * _PARTS:
        return []
    means, errors = [], []
    for part in np.array_split(np.arange(len(ended)), _PARTS):
        values = np.array([ended[index]["episodic_reward"] for index in part])
        episodes = np.array([ended[index]["episodes"] for index in part])
        if episodes.sum() < max(100, 2 * rows):
            return []
        means.append(np.average(values, weights=episodes))
        spread = math.sqrt(np.average((values - means[-1]) ** 2, weights=episodes))
        errors.append(spread / math.sqrt(len(part) - 1))
    rise = means[-1] - means[-2]
    if rise <= max(2 * math.hypot(*errors[-2:]), 0.1 * np.ptp(means)):
        return []
    return [
        f"the reward still rises, from {means[-2]:.3g} to {means[-1]:.3g} in the last fifth: "
        "train longer"
    ]


def _greedy(players: Players) -> list[str]:
    """Return a line if greedy play is significantly and much worse than sampled play.

    A player that does not see where it has been walks in circles when it is greedy, and actors that
    choose at once block each other.
    """
    greedy, sampled = players.get("agent, greedy"), players.get("agent, sampled")
    if greedy is None or sampled is None:
        return []
    random, names = players.get(RANDOM), ("win", "episodic_reward")
    if not any(_falls_behind(greedy, sampled, random, name) for name in names):
        return []
    return [
        "it plays better with sampled choices, the default of load_agent, than with greedy ones; "
        "evaluate --temperature 0.5 measures play between the two"
    ]


def _falls_behind(
    greedy: Evaluation, sampled: Evaluation, random: Evaluation | None, name: str
) -> bool:
    if not _better(sampled, greedy, name):
        return False
    way = 0.0
    if random is not None and random.count(name):
        way = abs(sampled.mean(name) - random.mean(name))
    return sampled.mean(name) - greedy.mean(name) > _FAR * way


def _same_rewards(records: Records, players: Players) -> list[str]:
    """Return a line if nearly all episodes have the same reward, so that no action is better."""
    reward, share = _same_reward(records), 1.0
    if math.isnan(reward) and (sampled := players.get("agent, sampled")) is not None:
        values, counts = np.unique(sampled.metrics["episodic_reward"], return_counts=True)
        reward, share = float(values[counts.argmax()]), counts.max() / max(sampled.episodes, 1)
        if sampled.episodes < _FEWEST_EPISODES or share < 0.98:
            return []
    if math.isnan(reward):
        return []
    return [
        f"{share:.0%} of the episodes had the same reward, {reward:.3g}, so that no action is "
        "better: make the first rewards easier to find, or give rewards on the way"
    ]


def _same_reward(records: Records) -> float:
    """Return the reward of all episodes; NaN if they differ."""
    rewards = {float(r["episodic_reward"]) for r in records if "episodic_reward" in r}
    return rewards.pop() if len(rewards) == 1 else math.nan


def _explored(records: Records) -> list[str]:
    """Return a line if the entropy has nearly gone."""
    first = next((r["policy/entropy"] for r in records if "policy/entropy" in r), math.nan)
    now = _last_mean(records, "policy/entropy")
    if not now < 0.05 * first:
        return []
    return [
        f"it does not explore any more (entropy {now:.3g}, at first {first:.3g}): try a "
        "larger ppo.entropy_coef, or a smaller optim.lr"
    ]


def _explained(records: Records) -> list[str]:
    """Return a line if the value function predicts returns almost completely, or not at all."""
    explained = _last_mean(records, "value/explained_variance")
    if explained > 0.8:
        return [
            f"the value function predicts returns (explained variance {explained:.2f}), as where "
            "most of them happens anyway: reward what actions change (docs/rewards.md)"
        ]
    if explained < 0.1:
        return [
            f"the value function predicts no returns (explained variance {explained:.2f}), as "
            "where luck rules them: leave gains and losses out of the reward whose mean no action "
            "changes, or try a smaller ppo.gae_lambda (docs/rewards.md)"
        ]
    return []


def _last_mean(records: Records, name: str) -> float:
    """Return the mean of a number over the last fifth of the updates; NaN if it has none."""
    last = records[-max(1, len(records) // _PARTS) :]
    values = [record[name] for record in last if name in record]
    return float(np.mean(values)) if values else math.nan
