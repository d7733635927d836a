"""Possible causes of missing progress, derived from the numbers of a run, and remedies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ppo_trainer.reporting.evaluation import Evaluation

__all__ = ["compare_greedy", "diagnose", "is_zero_sum", "warnings"]

Records = Sequence[Mapping[str, Any]]

_PARTS = 5
"""Number of equal parts into which the updates of a run are divided."""
_FEWEST_RECORDS = 2 * _PARTS
_FEWEST_EPISODES = 30
"""Minimum number of episodes with which an evaluation is compared with random play."""
_MOST_LINES = 3


def diagnose(
    records: Records,
    evaluations: Sequence[Evaluation] = (),
    rows: int = 50,
    *,
    meets_equals: bool = False,
) -> list[str]:
    """Return up to three lines about a run; none if it has learned.

    Args:
        records: Numbers of each update, as in ``metrics.jsonl``.
        evaluations: Players of its evaluation, if there was one.
        rows: Number of environments that play side by side. Until each of them has ended one or two
            episodes, only short episodes have ended, whose means are not representative.
        meets_equals: True if the network plays against itself or versions of itself, and one seat
            wins what others lose. Then it wins half of the games, however well it plays.

    Returns:
        Possible causes, the most likely first, and remedies. For a run that is better than random
        play, at most a line that it still improves.
    """
    if not records:
        return []
    if not any(record.get("episodes") for record in records):
        return [
            "no episode has ended: train longer, or end episodes with a limit such as "
            "entity_env.wrappers.TimeLimit"
        ]
    if meets_equals:
        return _of_self_play(records, evaluations)
    rising = _rising(records, rows)
    verdict = _no_better(records, evaluations, rows)
    if verdict is None:
        return rising
    suggestions = _rewards(records) or [
        *rising,
        *_truncated(records),
        *_entropy(records),
        *_explained(records),
    ]
    return [verdict, *suggestions][:_MOST_LINES]


def compare_greedy(evaluations: Sequence[Evaluation]) -> str | None:
    """Return a line if greedy play is significantly worse than sampled play, else None.

    Actors with equal observations make equal choices when they are greedy, which may block each
    other.
    """
    players = {evaluation.player: evaluation for evaluation in evaluations}
    greedy, sampled = players.get("agent, greedy"), players.get("agent, sampled")
    if greedy is None or sampled is None:
        return None
    names = [name for name in ("win", "episodic_reward") if _better(sampled, greedy, name)]
    if not names:
        return None
    return (
        "it plays better with sampled choices, the default of load_agent, than with greedy ones; "
        "evaluate --temperature 0.5 measures play between the two"
    )


def warnings(records: Records, rows: int) -> list[str]:
    """Return lines about problems of a run in progress; none if it learns.

    Args:
        records: Numbers of each update so far, as in ``metrics.jsonl``.
        rows: Number of environments that play side by side.
    """
    in_step = _in_step(records, rows)
    if _no_better_than_at_first(records, rows) is None:
        return in_step
    negative = _mean(_last(records), "value/explained_variance")
    explained = _explained(records) if negative is not None and negative < 0 else []
    lines = [*_gone(records), *explained, *in_step]
    return [f"the reward does not rise; {lines[0]}", *lines[1:]] if lines else []


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


def _of_self_play(records: Records, evaluations: Sequence[Evaluation]) -> list[str]:
    """Return a line that compares the network with random play, or asks for such an evaluation."""
    if not _is_measured(evaluations):
        return [
            "it plays against itself, so that its rewards do not measure how well it plays; "
            "to measure it: python -m ppo_trainer.evaluate <run> --against random"
        ]
    verdict = _no_better(records, evaluations, rows=0)
    return [verdict, *_entropy(records), *_explained(records)][:_MOST_LINES] if verdict else []


def _is_measured(evaluations: Sequence[Evaluation]) -> bool:
    """Return True if the agent and random play have played enough to be compared."""
    chance = [e for e in evaluations if e.player == "random play"]
    agents = [e for e in evaluations if e.player.startswith("agent")]
    return bool(chance and agents and chance[0].episodes >= _FEWEST_EPISODES)


def _no_better(records: Records, evaluations: Sequence[Evaluation], rows: int) -> str | None:
    """Return a line if the run plays no better than at random, else None."""
    if not _is_measured(evaluations):
        return _no_better_than_at_first(records, rows)
    chance = next(e for e in evaluations if e.player == "random play")
    agents = [e for e in evaluations if e.player.startswith("agent")]
    better = ["win", "episodic_reward"]
    if _longer_is_better(records):
        better.append("episodic_length")
    if any(_better(agent, chance, name) for agent in agents for name in better):
        return None
    name = "win" if chance.count("win") else "episodic_reward"
    best = max((agent for agent in agents if agent.count(name)), key=lambda own: own.mean(name))
    label = "wins" if name == "win" else "a reward of"
    numbers = f"{label} {best.mean(name):.3g}, and random play {chance.mean(name):.3g}"
    if _better(chance, best, name):
        return f"it plays worse than at random: {numbers}"
    return (
        f"it has not learned: {numbers}; "
        "check that the reward depends on the actions, and that observations show what matters"
    )


def _no_better_than_at_first(records: Records, rows: int) -> str | None:
    fifths = _fifths(records, rows)
    if not fifths or _has_risen(fifths):
        return None
    if _longer_is_better(records) and _has_risen(_fifths(records, rows, "episodic_length")):
        return None
    first, last = fifths[0], fifths[-1]
    return f"it has not learned: the reward was {first.mean:.3g} at first, and is {last.mean:.3g}"


def _longer_is_better(records: Records) -> bool:
    """Return True if each episode costs the same reward, as a life with -1 for its end does."""
    return _same_reward(records) < 0


def _has_risen(fifths: Sequence[Fifth]) -> bool:
    if not fifths:
        return False
    first, last = fifths[0], fifths[-1]
    # A run may have learned most of what it can within the first fifth.
    by_parts = last.mean - first.mean > 2 * math.hypot(first.error, last.error)
    return by_parts or last.mean - first.begin > 3 * last.spread + 1e-9 * abs(last.mean)


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
    fifths = _fifths(records, rows)
    if not fifths:
        return []
    before, last = (fifth.mean for fifth in fifths[-2:])
    whole = max(fifth.mean for fifth in fifths) - min(fifth.mean for fifth in fifths)
    luck = 2 * math.hypot(*(fifth.error for fifth in fifths[-2:]))
    if last - before <= max(luck, 0.1 * whole):
        return []
    return [
        f"the reward still rises, from {before:.3g} to {last:.3g} in the last fifth: train longer"
    ]


def _rewards(records: Records) -> list[str]:
    """Return a line if all episodes have the same reward, so that no action is better."""
    reward = _same_reward(records)
    if math.isnan(reward):
        return []
    return [
        f"all episodes of the training had the same reward, {reward:.3g}, so that no action is "
        "better than others; "
        "make the first rewards easier to find, or give rewards on the way"
    ]


def _same_reward(records: Records) -> float:
    """Return the reward of all episodes; NaN if they differ."""
    rewards = {float(r["episodic_reward"]) for r in records if "episodic_reward" in r}
    return rewards.pop() if len(rewards) == 1 else math.nan


def _truncated(records: Records) -> list[str]:
    last = _last(records)
    episodes = sum(record.get("episodes", 0.0) for record in last)
    cut = sum(record.get("episodes_truncated", 0.0) for record in last)
    if not episodes or cut < 0.98 * episodes:
        return []
    length = _mean(last, "episodic_length")
    after = "" if length is None else f", after {length:.0f} steps"
    return [
        f"a limit cuts off all episodes{after}: raise the limit, or give rewards on the way to "
        "the end of the game"
    ]


def _entropy(records: Records) -> list[str]:
    first, now = _entropies(records)
    if now > 0.95 * first > 0:
        return [
            f"it acts as randomly as at first (entropy {now:.3g}, at first {first:.3g}): try a "
            "larger optim.lr, or a smaller ppo.entropy_coef"
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
    now = _mean(_last(records), "policy/entropy")
    return first, math.nan if now is None else now


def _explained(records: Records) -> list[str]:
    explained = _mean(_last(records), "value/explained_variance")
    if explained is None or explained >= 0.1:
        return []
    return [
        f"the value function does not predict returns (explained variance {explained:.2f}): try "
        "rewards scaled to about 1, larger rollouts, or a separate value_net"
    ]


def _last(records: Records) -> Records:
    """Return the records of the last fifth."""
    return records[-max(1, len(records) // _PARTS) :]


def _mean(records: Records, name: str) -> float | None:
    values = [record[name] for record in records if name in record]
    return float(np.mean(values)) if values else None


@dataclass(frozen=True)
class Fifth:
    """The reward of the episodes that ended in a fifth of the run.

    Args:
        begin: Mean in the first update.
        mean: Mean over the fifth.
        spread: Standard deviation of the means of single updates.
        error: Standard error of the mean.
    """

    begin: float
    mean: float
    spread: float
    error: float


def _fifths(records: Records, rows: int, name: str = "episodic_reward") -> list[Fifth]:
    """Return five parts of the run; none if a part has too few updates or episodes."""
    ended = [r for r in records if r.get("episodes") and name in r]
    if len(ended) < _FEWEST_RECORDS:
        return []
    fifths = []
    for part in np.array_split(np.arange(len(ended)), _PARTS):
        rewards = np.array([ended[index][name] for index in part])
        episodes = np.array([ended[index]["episodes"] for index in part])
        if episodes.sum() < max(100, 2 * rows):
            return []
        mean = float(np.average(rewards, weights=episodes))
        spread = math.sqrt(np.average((rewards - mean) ** 2, weights=episodes))
        fifths.append(Fifth(float(rewards[0]), mean, spread, spread / math.sqrt(len(part) - 1)))
    return fifths
