"""Rows that wait, act out of step, end and come back, for the tests of decisions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env import (
    CategoricalActionMask,
    CategoricalActionSpace,
    Entity,
    Observation,
    ObsSpace,
    VecEnv,
    VecObs,
    batch_obs,
)
from entity_env.metrics import metric_columns

SPACE = ObsSpace(entities={"Seat": Entity(["time", "row"])})
ACTIONS = {"Go": CategoricalActionSpace(["left", "right"])}


class TurnRows(VecEnv):
    """R rows that each play by a pattern of their own, however the others do.

    At each step of its own clock a row draws whether it is asked, what it is paid, and whether its
    episode ends or is cut off; what is chosen changes nothing. Its numbers come from a stream.
    With ``slow`` the clocks of rows that wait stand still now and then, so that rows interleave in
    other ways.

    Args:
        num_envs: R.
        seed: Of all rows.
        slow: The part of the steps in which the clock of a row that waits stands still.
        streams: Which stream each row draws from; by default its own number. Shape: (R,).
    """

    def __init__(
        self, num_envs: int, seed: int = 0, slow: float = 0.0, streams: Any = None
    ) -> None:
        self._size, self._seed, self._slow = num_envs, seed, slow
        self._streams = list(range(num_envs) if streams is None else streams)

    def obs_space(self) -> ObsSpace:
        return SPACE

    def action_space(self) -> dict[str, Any]:
        return dict(ACTIONS)

    def __len__(self) -> int:
        return self._size

    def has_state(self) -> bool:
        return True

    def _reset(self, seed: int | None) -> VecObs:
        self._seed = self._seed if seed is None else seed
        self._rngs = [np.random.default_rng([self._seed, s]) for s in self._streams]
        self._order = np.random.default_rng(self._seed + 7)
        self._time = [0] * len(self)
        self._asked = [True] * len(self)
        return self._observation(np.zeros(len(self)), [0] * len(self))

    def _act(self, chosen: Mapping[str, Any]) -> VecObs:
        reward, ends = np.zeros(len(self)), [0] * len(self)
        for row, rng in enumerate(self._rngs):
            moves = self._order.random() >= self._slow or self._asked[row]
            self._asked[row] = False
            if not moves:
                continue
            asks, pays, ending = rng.random(), rng.integers(-3, 4), rng.random()
            reward[row] = pays
            self._time[row] += 1
            ends[row] = 1 if ending < 0.1 else 2 if ending < 0.2 else 0
            self._asked[row] = asks < 0.5
        return self._observation(reward, ends)

    def _observation(self, reward: npt.NDArray[np.float64], ends: list[int]) -> VecObs:
        frames = [self._frame(row) for row in range(len(self)) if self._asked[row]]
        final = [self._frame(row) for row in range(len(self)) if ends[row] == 2]
        done = np.array(ends) > 0
        lengths = {"episodic_length": 1.0, "episodic_reward": 0.0}
        return dataclasses.replace(
            batch_obs(frames, SPACE, ACTIONS),
            reward=reward.astype(np.float32),
            done=done,
            truncated=np.array(ends) == 2,
            metrics=metric_columns([lengths if end else None for end in ends]) if any(ends) else {},
            final=batch_obs(final, SPACE, ACTIONS) if final else None,
            rows=np.flatnonzero(self._asked),
        )

    def _frame(self, row: int) -> Observation:
        return Observation(
            features={"Seat": [[self._time[row], self._streams[row]]]},
            actions={"Go": CategoricalActionMask(actor_types=["Seat"])},
            reward=0.0,
            done=False,
        )

    def _get_state(self) -> list[Any]:
        return [
            {
                "rng": rng.bit_generator.state,
                "order": self._order.bit_generator.state,
                "time": self._time[row],
                "asked": bool(self._asked[row]),
            }
            for row, rng in enumerate(self._rngs)
        ]

    def _set_state(self, state: list[Any]) -> VecObs:
        self._reset(None)
        for row, saved in enumerate(state):
            self._rngs[row].bit_generator.state = saved["rng"]
            self._order.bit_generator.state = saved["order"]
            self._time[row], self._asked[row] = saved["time"], saved["asked"]
        return self._observation(np.zeros(len(self)), [0] * len(self))

    def _render(self, **_: Any) -> list[npt.NDArray[np.uint8]]:
        return []

    def _close(self) -> None:
        pass
