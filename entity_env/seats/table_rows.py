"""One game as rows, step by step, for the terminal and its replays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.batching.frame import Frame
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.vec_obs import VecObs, batch_frames
from entity_env.environment import Environment, begin_episode, call_environment, seed_environment
from entity_env.errors import ResetNeededError, StateError
from entity_env.kinds.answers import answers_of_frames
from entity_env.kinds.table import answer_forms, typed_actions
from entity_env.rows.vec_env import VecEnv
from entity_env.seats.multi_player import MultiPlayerEnvironment
from entity_env.seats.seat_rows import MOST_IDLE_STEPS, game_seed
from entity_env.seats.table import Table, Told
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["TableRows"]


class TableRows(VecEnv):
    """The seats of one game as rows, which also return steps in which no seat must act.

    After the end of a game, ``reset`` begins the next one. An environment is played as a game with
    one seat, which must act in each step.

    Args:
        game: An environment, or a game of several players.
        seed: Seed of the environment, or of the game like the first game of ``SeatRows``.

    Attributes:
        names: Names of the seats.
        told: Frames of the last step, by the number of the seat.
        seen: Observations of the last step, as returned by the game.
        asked: Frames of the seats that must act, by the number of the seat.
        is_over: True if the game is over, and ``reset`` comes next.
    """

    def __init__(self, game: Environment | MultiPlayerEnvironment, seed: int) -> None:
        self.game = game
        self._table: Table | None = None
        if isinstance(game, Environment):
            seed_environment(game, seed)
        else:
            game.seed(game_seed(seed, 0))
            self._table = Table(game)
        self.names = ["you"] if self._table is None else [str(s) for s in self._table.seats]
        self._reader = FrameReader(
            call_environment("obs_space", game.obs_space),
            call_environment("action_space", game.action_space),
        )
        self.told: dict[int, Frame] = {}
        self.seen: Told = {}
        self.asked: dict[int, Frame] = {}
        self.is_over = True
        self._idle = 0

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        return self._reader.obs_space

    def action_space(self) -> dict[ActionName, ActionSpace]:
        """Return the action space."""
        return dict(self._reader.action_space)

    def __len__(self) -> int:
        """Return the number of seats."""
        return len(self.names)

    @property
    def is_alone(self) -> bool:
        """True for an environment, False for a game of several players."""
        return self._table is None

    @property
    def num_seats(self) -> int:
        """The number of seats."""
        return len(self.names)

    def _batch(self, frames: Mapping[int, Frame]) -> VecObs:
        """Return the frames of some seats as a batch, with the results of the last step."""
        obs = batch_frames(list(frames.values()), self._reader.obs_space, self._reader.action_space)
        reward, done, truncated = np.zeros(len(self), np.float32), *np.zeros((2, len(self)), bool)
        for seat, frame in self.told.items():
            reward[seat], done[seat], truncated[seat] = frame.reward, frame.done, frame.truncated
        rows = np.array(list(frames), np.int64)
        return replace(obs, rows=rows, reward=reward, done=done, truncated=truncated)

    def _reset(self, seed: int | None) -> VecObs:
        self._idle = 0
        if self._table is not None:
            return self._see("reset", self._table.reset())
        alone: Any = self.game
        return self._see("reset", {0: call_environment("reset", begin_episode, alone.reset)})

    def _act(self, chosen: Mapping[ActionName, ActionBuffer]) -> VecObs:
        if self.is_over:
            raise ResetNeededError("the game is over", hint="reset() begins the next one")
        space = self._reader.action_space
        answers = answers_of_frames(chosen, self._shown.action_masks, answer_forms(space))
        actions = {
            seat: typed_actions(frame, own, space)
            for (seat, frame), own in zip(self.asked.items(), answers, strict=True)
        }
        self._idle = 0 if self.asked else self._idle + 1
        if self._table is None:
            alone: Any = self.game
            return self._see("act", {0: call_environment("act", alone.act, actions[0])})
        if self._idle > MOST_IDLE_STEPS:
            raise self._table.asks_nobody(MOST_IDLE_STEPS)
        return self._see("act", self._table.act(actions))

    def _see(self, what: str, told: Told) -> VecObs:
        self.told, self.asked, self.seen = {}, {}, dict(told)
        for seat, observation in told.items():
            where = what if self._table is None else f"seat {self.names[seat]!r}"
            frame = self.told[seat] = self._reader.read(observation, where)
            if frame.asks or (self._table is None and not frame.done):
                self.asked[seat] = frame
        self.is_over = self.told[0].done if self._table is None else self._table.is_over
        self._shown = self._batch(self.told if self._table is None else self.asked)
        return self._shown

    def _get_state(self) -> list[Any]:
        raise StateError("a game that is played step by step cannot be saved")

    def _set_state(self, state: list[Any]) -> VecObs:
        raise StateError("a game that is played step by step cannot be restored")

    def _render(self, **kwargs: Any) -> list[npt.NDArray[np.uint8]]:
        return [self.game.render(**kwargs)] * len(self)

    def _close(self) -> None:
        self.game.close()
