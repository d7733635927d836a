"""Possible causes of missing progress, derived from the numbers of a run, and remedies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ppo_trainer.reporting.evaluation import RANDOM, SCRIPTED, Evaluation

__all__ = ["diagnose", "is_zero_sum", "warnings"]

Records = Sequence[Mapping[str, Any]]
F64 = npt.NDArray[np.float64]

_PARTS = 5
"""Number of equal parts into which the updates of a run are divided."""
_FEWEST_RECORDS = 2 * _PARTS
_FEWEST_EPISODES = 30
"""Minimum number of episodes with which an evaluation is compared with random play."""
_MOST_LINES = 3
_GOOD_WAY = 0.9
"""Part of the way from random play to the scripted player after which nothing is missing."""


def diagnose(
    records: Records,
    evaluations: Sequence[Evaluation] = (),
    rows: int = 50,
    *,
    meets_equals: bool = False,
    lacks_positions: bool = False,
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

    Returns:
        The part of the way to the scripted player, or that nothing was learned; then possible
        causes, the most likely first, and remedies. For other runs at most that they still improve,
        or play worse when they are greedy.
    """
    if not records:
        return []
    if not any(record.get("episodes") for record in records):
        return [
            "no episode has ended: train longer, or end episodes with a limit such as "
            "entity_env.wrappers.TimeLimit"
        ]
    players = {evaluation.player: evaluation for evaluation in evaluations}
    if meets_equals and not _are_measured(players):
        return [
            "it plays against itself, so that its rewards do not measure how well it plays; "
            "to measure it: python -m ppo_trainer.evaluate <run> --against random"
        ]
    seen = [] if meets_equals else records
    verdict = _way(players) or _no_better(seen, records, players, rows)
    improving = [*_rising(seen, rows), *_greedy(players)]
    if verdict is None:
        return improving
    causes = _same_rewards(seen, players) or [
        *improving,
        *(_POSITIONS if lacks_positions else _entropy(records)),
        *_explained(records),
    ]
    return [verdict, *causes][:_MOST_LINES]


def warnings(records: Records, rows: int) -> list[str]:
    """Return lines about problems of a run in progress; none if it learns.

    Args:
        records: Numbers of each update so far, as in ``metrics.jsonl``.
        rows: Number of environments that play side by side.
    """
    in_step = _in_step(records, rows)
    if _no_better_than_at_first(records, rows) is None:
        return in_step
    negative = _last_mean(records, "value/explained_variance") < 0
    lines = [*_gone(records), *(_explained(records) if negative else []), *in_step]
    return [f"the reward does not rise; {lines[0]}", *lines[1:]] if lines else []


def is_zero_sum(records: Records) -> bool:
    """Return True if the mean return of all seats is 0, except for chance and rounding.

    Args:
        records: Records of a run that plays all seats itself. The seats of one game may end in two
            updates, so that the mean of a single update need not be 0.
    """
    ended = [r for r in records if r.get("episodes") and "episodic_reward" in r]
    if not ended:
        return True
    rewards = np.array([record["episodic_reward"] for record in ended])
    mean = np.average(rewards, weights=[record["episodes"] for record in ended])
    return bool(abs(mean) <= 3 * rewards.std() / math.sqrt(len(rewards)) + 1e-6)


def _are_measured(players: Mapping[str, Evaluation]) -> bool:
    """Return True if the agent and random play have played enough to be compared."""
    chance = players.get(RANDOM)
    return bool(_agents(players) and chance and chance.episodes >= _FEWEST_EPISODES)


def _agents(players: Mapping[str, Evaluation]) -> list[Evaluation]:
    return [agent for name, agent in players.items() if name.startswith("agent")]


def _way(players: Mapping[str, Evaluation]) -> str | None:
    """Return a line if the agent plays between random play and a better scripted player."""
    script = players.get(SCRIPTED)
    if script is None or not _are_measured(players):
        return None
    random, name = players[RANDOM], "episodic_reward"
    if not _better(script, random, name):
        return None
    least, most = random.mean(name), script.mean(name)
    best = max(agent.mean(name) for agent in _agents(players))
    if not least <= best < least + _GOOD_WAY * (most - least):
        return None
    return (
        f"it has come {(best - least) / (most - least):.0%} of the way from random play to the "
        f"scripted player: rewards of {least:.3g}, {best:.3g} and {most:.3g}"
    )


def _no_better(
    seen: Records, records: Records, players: Mapping[str, Evaluation], rows: int
) -> str | None:
    """Return a line if the run plays no better than at random, or at first; else None."""
    if not _are_measured(players):
        return _no_better_than_at_first(seen, rows)
    random, agents = players[RANDOM], _agents(players)
    better = ["win", "episodic_reward"]
    if _same_reward(records) < 0:  # longer lives are better if each costs the same
        better.append("episodic_length")
    if any(_better(agent, random, name) for agent in agents for name in better):
        return None
    name = "win" if random.count("win") else "episodic_reward"
    best = max((agent for agent in agents if agent.count(name)), key=lambda agent: agent.mean(name))
    label = "wins" if name == "win" else "a reward of"
    numbers = f"{label} {best.mean(name):.3g}, and random play {random.mean(name):.3g}"
    if _better(random, best, name):
        return f"it plays worse than at random: {numbers}"
    return f"it has not learned: {numbers}"


def _no_better_than_at_first(records: Records, rows: int) -> str | None:
    means, errors, first, spread = _fifths(records, rows)
    if not len(means) or _has_risen(means, errors, first, spread):
        return None
    if _same_reward(records) < 0 and _has_risen(*_fifths(records, rows, "episodic_length")):
        return None
    return f"it has not learned: the reward was {means[0]:.3g} at first, and is {means[-1]:.3g}"


def _has_risen(means: F64, errors: F64, first: float, spread: float) -> bool:
    if not len(means):
        return False
    by_parts = means[-1] - means[0] > 2 * math.hypot(errors[0], errors[-1])
    # A run may have learned most of what it can within the first fifth.
    return bool(by_parts or means[-1] - first > 3 * spread + 1e-9 * abs(means[-1]))


def _better(one: Evaluation, other: Evaluation, name: str) -> bool:
    """Return True if the mean of ``one`` is significantly greater, at the 95% level."""
    if min(one.count(name), other.count(name)) < 2:
        return False
    spread = 0.0
    for evaluation in (one, other):
        values = evaluation.metrics[name][~np.isnan(evaluation.metrics[name])]
        spread += float(values.var(ddof=1)) / len(values)
    return one.mean(name) - other.mean(name) > 2 * math.sqrt(spread)


def _rising(records: Records, rows: int) -> list[str]:
    """Return a line if the last fifth is significantly better than the one before."""
    means, errors, _, _ = _fifths(records, rows)
    if not len(means) or means[-1] - means[-2] <= max(
        2 * math.hypot(errors[-2], errors[-1]), 0.1 * np.ptp(means)
    ):
        return []
    return [
        f"the reward still rises, from {means[-2]:.3g} to {means[-1]:.3g} in the last fifth: "
        "train longer"
    ]


def _greedy(players: Mapping[str, Evaluation]) -> list[str]:
    """Return a line if greedy play is significantly worse than sampled play.

    Actors with equal observations make equal choices when they are greedy, and block each other;
    and a player that does not see where it has been walks in circles.
    """
    greedy, sampled = players.get("agent, greedy"), players.get("agent, sampled")
    if greedy is None or sampled is None:
        return []
    if not any(_better(sampled, greedy, name) for name in ("win", "episodic_reward")):
        return []
    return [
        "it plays better with sampled choices, the default of load_agent, than with greedy ones: "
        "evaluate --temperature 0.5 measures play between the two; if it must remember what it no "
        "longer sees, net.memory helps"
    ]


_POSITIONS = (
    "its actors choose directions, and no entity has a position: if some have, declare them with "
    "Position among their features, without which directions are hardly learned",
)


def _same_rewards(records: Records, players: Mapping[str, Evaluation]) -> list[str]:
    """Return a line if nearly all episodes have the same reward, so that no action is better."""
    reward, share = _same_reward(records), "all episodes of the training"
    if math.isnan(reward) and (sampled := players.get("agent, sampled")) is not None:
        values, counts = np.unique(sampled.metrics["episodic_reward"], return_counts=True)
        if sampled.episodes >= _FEWEST_EPISODES and counts.max() >= 0.98 * sampled.episodes:
            reward, share = float(values[counts.argmax()]), "nearly all episodes"
    if math.isnan(reward):
        return []
    return [
        f"{share} had the same reward, {reward:.3g}, so that no action is better than others; "
        "make the first rewards easier to find, or give rewards on the way"
    ]


def _same_reward(records: Records) -> float:
    """Return the reward of all episodes; NaN if they differ."""
    rewards = {float(r["episodic_reward"]) for r in records if "episodic_reward" in r}
    return rewards.pop() if len(rewards) == 1 else math.nan


def _entropy(records: Records) -> list[str]:
    first, now = _entropies(records)
    if now > 0.95 * first > 0:
        return [
            f"it acts as randomly as at first (entropy {now:.3g}, at first {first:.3g}): try a "
            "smaller ppo.entropy_coef, or a larger optim.lr"
        ]
    return _gone(records)


def _gone(records: Records) -> list[str]:
    first, now = _entropies(records)
    if not now < 0.05 * first:
        return []
    return [
        f"it does not explore any more (entropy {now:.3g}, at first {first:.3g}): try a "
        "larger ppo.entropy_coef, or a smaller optim.lr"
    ]


def _entropies(records: Records) -> tuple[float, float]:
    """Return the entropy at the start and that of the last fifth; NaN if there is none."""
    first = next((r["policy/entropy"] for r in records if "policy/entropy" in r), math.nan)
    return first, _last_mean(records, "policy/entropy")


def _explained(records: Records) -> list[str]:
    """Return a line if the value function predicts returns hardly, or almost completely."""
    explained = _last_mean(records, "value/explained_variance")
    if explained < 0.1:
        return [
            f"the value function does not predict returns (explained variance {explained:.2f}): "
            "try rewards scaled to about 1, larger rollouts, or a separate value_net"
        ]
    if explained > 0.8:
        return [
            f"the value function predicts returns (explained variance {explained:.2f}), as where "
            "most of them happens anyway: reward what actions change (docs/rewards.md)"
        ]
    return []


def _in_step(records: Records, rows: int) -> list[str]:
    """Return a line if nearly all rows end their episodes in the same few updates."""
    ended = [record.get("episodes", 0.0) for record in records]
    together = [count for count in ended if count > 0.9 * rows]
    if len(together) < 2 or 4 * sum(map(bool, ended)) > len(ended):
        return []
    if sum(together) < 0.9 * sum(ended):
        return []
    return [
        "all rows end their episodes in the same updates, so that an update sees only one part of "
        "an episode: set rollout.stagger=true, or a setting of the game that starts at random"
    ]


def _last_mean(records: Records, name: str) -> float:
    """Return the mean of a number over the last fifth of the updates; NaN if it has none."""
    last = records[-max(1, len(records) // _PARTS) :]
    values = [record[name] for record in last if name in record]
    return float(np.mean(values)) if values else math.nan


def _fifths(
    records: Records, rows: int, name: str = "episodic_reward"
) -> tuple[F64, F64, float, float]:
    """Return the means of five parts of the run; none if a part has too few updates or episodes.

    Returns:
        The mean of each part and its standard error; the mean of the first update; and the
        standard deviation of the updates of the last part.
    """
    ended = [r for r in records if r.get("episodes") and name in r]
    nothing = np.zeros(0), np.zeros(0), math.nan, math.nan
    if len(ended) < _FEWEST_RECORDS:
        return nothing
    means, errors, spread = [], [], math.nan
    for part in np.array_split(np.arange(len(ended)), _PARTS):
        values = np.array([ended[index][name] for index in part])
        episodes = np.array([ended[index]["episodes"] for index in part])
        if episodes.sum() < max(100, 2 * rows):
            return nothing
        means.append(np.average(values, weights=episodes))
        spread = math.sqrt(np.average((values - means[-1]) ** 2, weights=episodes))
        errors.append(spread / math.sqrt(len(part) - 1))
    return np.array(means), np.array(errors), float(ended[0][name]), spread
