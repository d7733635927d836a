"""Functions that play whole episodes, with policies for rows or for single observations."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.agent import Policy, VecPolicy, random_policy
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.vec_obs import VecObs
from entity_env.environment import Environment, begin_episode, seed_environment
from entity_env.errors import SettingError
from entity_env.metrics import EpisodeTracker, complete_columns, metric_columns
from entity_env.rows.list_env import ListEnv
from entity_env.rows.vec_env import VecEnv, check_count
from entity_env.wrappers.time_limit import TimeLimit

__all__ = [
    "PlayBudget",
    "Policy",
    "VecPolicy",
    "play",
    "play_episodes",
    "play_lives",
    "play_rows",
    "play_scripted",
    "random_policy",
]


def play(
    rows: VecEnv, policy: Callable[[VecObs], Any], act: Callable[[Any], VecObs] | None = None
) -> Iterator[VecObs]:
    """Yield the first observation of rows, and that after each step, without end.

    Evaluations, leagues, recordings, films and the terminal all play by this loop.

    Args:
        rows: The rows.
        policy: Function from an observation to actions, called when the next one is asked for.
        act: Function that plays what the policy returns; None for ``rows.act``.
    """
    act = rows.act if act is None else act
    obs = rows.reset()
    while True:
        yield obs
        # Rows begin their next episodes by themselves, except those of a single game.
        obs = rows.reset() if getattr(rows, "is_over", False) else act(policy(obs))


class PlayBudget:
    """A time limit that starts when the object is made.

    Args:
        seconds: The time limit; 0 for no limit.
        heard: Function that is called after every step with the number of finished episodes.
        now: Function that returns the time in seconds.

    Attributes:
        cut_off: Number of episodes that were cut off because the time was over. They count with
            their reward so far and without the game's metrics.
    """

    def __init__(
        self,
        seconds: float = 0.0,
        heard: Callable[[int], None] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now, self._heard = now, heard
        self._end = now() + seconds if seconds else math.inf
        self._played = 0
        self.cut_off = 0

    def is_up(self) -> bool:
        """Return True if the time is over."""
        return self._now() >= self._end

    def step(self, ended: int) -> None:
        """Count one step, in which ``ended`` episodes have ended."""
        self._played += ended
        if self._heard is not None:
            self._heard(self._played)


def play_episodes(
    create_env: Callable[[], Environment],
    policy: VecPolicy,
    episodes: int,
    seed: int,
    *,
    rows: int = 128,
    max_steps: int = 0,
    budget: PlayBudget | None = None,
) -> dict[str, npt.NDArray[np.float64]]:
    """Play ``episodes`` new episodes; return the metrics of each, shape (episodes,).

    Each row plays a fixed share of the episodes, because counting the episodes that end first would
    favour short ones. If the time is over, the first episodes of each row count, as many as the
    slowest row has played. If that is 0, the first episode of each row is cut off and counts.

    Args:
        create_env: Function that makes one environment.
        policy: Policy for all rows.
        episodes: Number of episodes.
        seed: Seed of the environments.
        rows: Number of environments that play at once.
        max_steps: Number of steps after which episodes are cut off; 0 for no limit.
        budget: The time limit; None for no limit.

    Raises:
        SettingError: ``episodes`` is below 1.
    """
    limited = functools.partial(_limited, create_env, max_steps)
    # The limit wraps the environments, so that a row continues with its next episode.
    make_rows = functools.partial(ListEnv, limited)
    return play_rows(make_rows, policy, episodes, seed, rows=rows, budget=budget)


def play_rows(
    make_rows: Callable[[int, int], VecEnv],
    policy: VecPolicy,
    episodes: int,
    seed: int,
    *,
    rows: int = 128,
    max_steps: int = 0,
    budget: PlayBudget | None = None,
) -> dict[str, npt.NDArray[np.float64]]:
    """Play episodes in any ``VecEnv``; see ``play_episodes``.

    An episode that is cut off counts with its reward so far and without the game's metrics. Because
    a single row cannot be reset, the rest of its share is played afterwards, in new rows whose seed
    is drawn from ``seed``.
    """
    check_count("number of episodes", episodes, error=SettingError)
    budget = PlayBudget() if budget is None else budget
    shares = np.array([len(part) for part in np.array_split(range(episodes), min(episodes, rows))])
    played: list[_Played] = []
    left, who, attempt = shares.copy(), np.arange(len(shares)), 0
    while len(who) and not (played and budget.is_up()):
        with make_rows(len(who), seed) as env:
            played += _play_shares(env, policy, left, who, shares, max_steps, budget)
        who = np.flatnonzero(left)
        attempt += 1
        seed = int(np.random.SeedSequence(seed, spawn_key=(attempt,)).generate_state(1)[0])
    if len(who):
        played = _first_of_each(played, int((shares - left)[who].min()))
    return complete_columns(metric_columns([summary for _, summary in played]))


def play_lives(
    make_rows: Callable[[int, int], VecEnv],
    policy: VecPolicy,
    episodes: int,
    seed: int,
    *,
    rows: int = 128,
    max_steps: int = 0,
    budget: PlayBudget | None = None,
) -> dict[str, npt.NDArray[np.float64]]:
    """Play in worlds that never end, and count the first lives that begin.

    Rows have many lives, with waits between them of any length, so that fixed shares of rows cannot
    be used. The policy plays all rows. A life that is longer than ``max_steps``, or has not ended
    when the time is over, counts with its reward so far and without the game's metrics.
    """
    check_count("number of episodes", episodes, error=SettingError)
    budget = PlayBudget() if budget is None else budget
    summaries = list[dict[str, float]]()
    with make_rows(rows, seed) as env:
        born, rewards, lengths = 0, np.zeros(len(env)), np.zeros(len(env), np.int64)
        lives, counts = np.zeros(len(env), np.bool_), np.zeros(len(env), np.bool_)
        steps = play(env, policy)
        acting = next(steps).rows
        while born < episodes or counts.any():
            newcomers = acting[~lives[acting]]
            counted = newcomers[: episodes - born]
            born += len(counted)
            lives[newcomers] = counts[counted] = True
            lengths[newcomers] = rewards[newcomers] = 0
            obs = next(steps)
            rewards += obs.reward
            lengths[acting] += 1
            acting = obs.rows
            before, is_up = len(summaries), budget.is_up()
            for row in np.flatnonzero(obs.done & counts):
                summaries.append(_metrics_of(obs, row))
            counts &= ~obs.done
            lives &= ~obs.done
            is_cut_off = counts & (is_up | (lengths == max_steps))
            for row in np.flatnonzero(is_cut_off):
                summaries.append(_so_far(float(rewards[row]), int(lengths[row])))
            counts &= ~is_cut_off
            budget.cut_off += int(is_up * is_cut_off.sum())
            budget.step(len(summaries) - before)
            if is_up:
                break
    return complete_columns(metric_columns(summaries))


_Played: TypeAlias = tuple[int, dict[str, float]]
"""The row of an episode, and its metrics."""


def _play_shares(
    env: VecEnv,
    policy: VecPolicy,
    left: npt.NDArray[np.int64],
    who: npt.NDArray[np.int64],
    shares: npt.NDArray[np.int64],
    max_steps: int,
    budget: PlayBudget,
) -> list[_Played]:
    """Play until the rows ``who`` have played their shares in ``left``, or are cut off."""
    played: list[_Played] = []
    rewards, lengths = np.zeros(len(who)), np.zeros(len(who), np.int64)
    plays = np.ones(len(who), np.bool_)
    steps = play(env, policy)
    acting = next(steps).rows
    is_up = False
    while plays.any() and not is_up:
        obs = next(steps)
        rewards += obs.reward
        lengths[acting] += 1
        acting = obs.rows
        before = len(played)
        for row in np.flatnonzero(obs.done & plays):
            played.append((who[row], _metrics_of(obs, row)))
        left[who] -= plays & obs.done
        is_cut_off = plays & ~obs.done & (lengths == max_steps)
        is_up = budget.is_up()
        if is_up:  # count the running episode of rows that have not finished any
            unplayed = plays & ~obs.done & ~is_cut_off & (left[who] == shares[who])
            budget.cut_off += int(unplayed.sum())
            is_cut_off |= unplayed
        for row in np.flatnonzero(is_cut_off):
            played.append((who[row], _so_far(float(rewards[row]), int(lengths[row]))))
        left[who] -= is_cut_off
        plays &= (left[who] > 0) & ~is_cut_off
        rewards[obs.done] = 0.0
        lengths[obs.done] = 0
        budget.step(len(played) - before)
    return played


def _metrics_of(obs: VecObs, row: int) -> dict[str, float]:
    """Return the metrics of the episode that has ended in a row, without those that are NaN."""
    metrics = {name: float(column[row]) for name, column in obs.metrics.items()}
    return {name: value for name, value in metrics.items() if value == value}


def _first_of_each(played: list[_Played], count: int) -> list[_Played]:
    """Return the first ``count`` episodes of each row."""
    counted: dict[int, int] = {}
    kept = []
    for row, summary in played:
        counted[row] = counted.get(row, 0) + 1
        if counted[row] <= count:
            kept.append((row, summary))
    return kept


def _so_far(reward: float, length: int) -> dict[str, float]:
    """Return the metrics of an episode that was cut off."""
    return {"episodic_reward": reward, "episodic_length": float(length)}


def play_scripted(
    create_env: Callable[[], Environment],
    policy: Policy,
    episodes: int,
    seed: int,
    *,
    max_steps: int = 0,
    budget: PlayBudget | None = None,
) -> dict[str, npt.NDArray[np.float64]]:
    """Play episodes one after the other with a function from an observation to actions.

    When the time is over, the running episode is cut off and counts; otherwise long episodes would
    be missing more often than short ones.
    """
    check_count("number of episodes", episodes, error=SettingError)
    budget = PlayBudget() if budget is None else budget
    env = _limited(create_env, max_steps)
    try:
        seed_environment(env, seed)
        reader = FrameReader(env.obs_space(), env.action_space())
        tracker = EpisodeTracker()
        summaries: list[dict[str, float]] = []
        is_up = False
        while len(summaries) < episodes and not is_up:
            observation = begin_episode(env.reset)
            frame = reader.read(observation)
            tracker.begin(frame.metrics)
            while not frame.done and not is_up:
                observation = env.act(policy(observation))
                frame = reader.read(observation)
                tracker.add(frame.reward, frame.metrics)
                is_up = budget.is_up()
                budget.step(int(frame.done))
            budget.cut_off += not frame.done
            whole = tracker.summary()
            summaries.append(whole if frame.done else _so_far(tracker.reward, tracker.length))
    finally:
        env.close()
    return complete_columns(metric_columns(summaries))


def _limited(create_env: Callable[[], Environment], max_steps: int) -> Environment:
    """Return an environment whose episodes end after ``max_steps`` steps, if not 0."""
    return TimeLimit(create_env(), max_steps) if max_steps else create_env()
