"""One game as rows, step by step, for the terminal, the viewer and replays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.agent import Decision, Proposer
from entity_env.batching.frame import Frame
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.row_reader import ReadRows
from entity_env.batching.vec_obs import VecObs
from entity_env.environment import Environment, begin_episode, seed_environment
from entity_env.errors import ResetNeededError, StateError
from entity_env.multi_player import MultiPlayerEnvironment, Seat, SeatActions, SeatObservations
from entity_env.rows.row_environments import RowEnvironments
from entity_env.seats.seat_agents import decide
from entity_env.seats.seat_rows import SeatObservation, SeatRows
from entity_env.seats.table import Told, seats_of
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["TableRows"]


class _OneGame(RowEnvironments):
    """One environment or game, which needs no number in errors."""

    def where(self, row: int) -> str:
        """Return the step, for errors."""
        return f"step {self.step}"


class TableRows(SeatRows):
    """The seats of one game as rows, which wait after its end until ``reset`` begins the next one.

    An environment is played as a game with one seat, which must act in each step.

    Args:
        game: An environment, or a game of several players.
        seed: Seed of the environment, or of the game like the first game of ``SeatRows``.

    Attributes:
        names: Names of the seats.
        told: Frames of the last step, by the number of the seat.
        seen: Observations of the last step, as returned by the game.
        asked: Frames of the seats that must act, by the number of the seat.
    """

    _reads_frames = True
    _games_of = _OneGame

    def __init__(self, game: Environment | MultiPlayerEnvironment, seed: int) -> None:
        self.game = game
        self.is_alone = isinstance(game, Environment)
        played = _OneSeat(game) if isinstance(game, Environment) else game
        super().__init__(lambda: played, len(seats_of(played)), seed)
        self.names = [str(seat) for seat in self._seats]
        self.told: dict[int, Frame] = {}
        self.seen: Told = {}
        self.asked: dict[int, Frame] = {}

    @property
    def is_over(self) -> bool:
        """True if the game is over, and ``reset`` comes next."""
        return self._tables[0].is_over

    def decide(self, seat: int, agent: Proposer) -> Decision:
        """Return the checked decision of an agent for a seat that must act."""
        spaces = self.obs_space(), self.action_space()
        return decide(agent, self.seen[seat], self.asked[seat], *spaces)

    def _act(self, chosen: Mapping[ActionName, ActionBuffer]) -> VecObs:
        if self.is_over:
            raise ResetNeededError("the game is over", hint="reset() begins the next one")
        return super()._act(chosen)

    def _ask(self, seen: list[SeatObservation], now: ReadRows, over: list[int]) -> None:
        super()._ask(seen, now, over=[])
        self.seen = {own.row: own.observation for own in seen}
        self.told = dict(zip(self.seen, now.frames, strict=True))
        self.asked = {seat: self.told[seat] for seat in self._asked.tolist()}

    def _must_act(self, now: ReadRows) -> list[bool]:
        return [frame.asks or (self.is_alone and not frame.done) for frame in now.frames]

    def _seed_all(self, seed: int) -> None:
        if isinstance(self.game, Environment):
            seed_environment(self.game, seed)
        else:
            super()._seed_all(seed)

    def _get_state(self) -> list[Any]:
        raise StateError("a game that is played step by step cannot be saved")

    def _set_state(self, state: list[Any]) -> VecObs:
        raise StateError("a game that is played step by step cannot be restored")


class _OneSeat(MultiPlayerEnvironment):
    """An environment as a game with one seat."""

    def __init__(self, env: Environment) -> None:
        self._env = env

    def obs_space(self) -> ObsSpace:
        return self._env.obs_space()

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        return self._env.action_space()

    def seats(self) -> Sequence[Seat]:
        return ["you"]

    def reset(self) -> SeatObservations:
        return {"you": begin_episode(self._env.reset)}

    def act(self, actions: SeatActions) -> SeatObservations:
        return {"you": self._env.act(actions["you"])}

    def render(self, **kwargs: Any) -> npt.NDArray[np.uint8]:
        return self._env.render(**kwargs)

    def close(self) -> None:
        self._env.close()
