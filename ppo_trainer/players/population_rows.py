"""Rows of a population, whose policies are assigned to games, or to seats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env import VecEnv, VecObs
from entity_env.batching.ragged import ActionBuffer
from entity_env.errors import SettingError, counted
from entity_env.wrappers.vec_wrapper import act_unchecked
from ppo_trainer.players.game_rows import GameRows

__all__ = ["PopulationRows", "owners_of_seats"]

Ints = npt.NDArray[np.int64]

_MEASURED = ("win", "episodic_reward")


class PopulationRows(GameRows):
    """Rows that belong to one policy each, from the beginning of a game to its end.

    When a game begins, the policy of each side is drawn uniformly and independently, so that a
    policy plays against all others and itself; or each seat always belongs to one policy, through
    all games and lives (``owners_of_seats``). Episodes that end have the additional metrics
    ``policy_<i>/win`` and ``policy_<i>/episodic_reward`` for the rows of policy i.

    Args:
        env: Rows of games; the seats of a game are consecutive rows.
        sides: Seats of each side: a team, or a single seat.
        size: Number of policies.
        seed: Seed of the draws; None if each seat always belongs to one policy.

    Raises:
        SettingError: There are fewer seats than policies, each of which has its own.
    """

    saved_as = "population"

    def __init__(
        self, env: VecEnv, sides: Sequence[Sequence[int]], size: int, seed: int | None
    ) -> None:
        super().__init__(env, sides)
        if seed is None and self._games.seats < size:
            raise SettingError(
                f"there are {size} populations, but only {counted(self._games.seats, 'seat')}",
                expected="at least one seat for each population",
            )
        self._size, self._sides, self._is_drawn = size, len(sides), seed is not None
        self._side_of = np.empty(self._games.seats, np.int64)
        for number, side in enumerate(sides):
            self._side_of[list(side)] = number
        self._rng = np.random.default_rng(seed or 0)
        self._owner = owners_of_seats(len(env), self._games.seats, size)

    @property
    def owner(self) -> Ints:
        """The policy that each row belongs to now. Shape: (R,), int64."""
        return self._owner

    def _reset(self, seed: int | None) -> VecObs:
        self._inner = self.env.reset(seed)
        self._games.begin(self._inner)
        self._draw(np.arange(len(self) // self._games.seats))
        return self._inner

    def _act(self, chosen: Mapping[str, ActionBuffer]) -> VecObs:
        inner = self._inner = act_unchecked(self.env, chosen, self._inner)
        shown = self._measured(inner) if inner.done.any() else inner
        over = self._games.follow(inner)
        if len(over):
            self._draw(over)
        return shown

    def _measured(self, obs: VecObs) -> VecObs:
        """Add the metrics of each policy."""
        measured = {}
        for name in _MEASURED:
            if name in obs.metrics:
                for policy in np.unique(self._owner[obs.done]).tolist():
                    column = np.where(self._owner == policy, obs.metrics[name], np.nan)
                    if not np.isnan(column).all():
                        measured[f"policy_{policy}/{name}"] = column
        return replace(obs, metrics={**obs.metrics, **measured})

    def _draw(self, games: Ints) -> None:
        """Draw the policy of each side of the games that begin."""
        if not self._is_drawn:
            return
        dealt = self._rng.integers(self._size, size=(len(games), self._sides))
        # A new array, because callers may keep the old one.
        owner = self._owner.copy()
        owner.reshape(-1, self._games.seats)[games] = dealt[:, self._side_of]
        self._owner = owner

    def own_state(self) -> Any:
        """Return the additional state as JSON values."""
        return {
            "games": self._games.get_state(),
            "owner": self._owner.tolist(),
            "rng": self._rng.bit_generator.state,
        }

    def _set_own_state(self, state: Any) -> None:
        owner = np.array(state["owner"], np.int64)
        if owner.shape != self._owner.shape or not ((owner >= 0) & (owner < self._size)).all():
            raise ValueError("the rows have policies that do not exist")
        if not self._is_drawn and not np.array_equal(owner, self._owner):
            raise ValueError("the seats belong to other policies")
        self._games.set_state(state["games"])
        self._rng.bit_generator.state = state["rng"]
        self._owner = owner


def owners_of_seats(rows: int, seats: int, size: int) -> Ints:
    """Return the policy of each row: seat i of a game belongs to policy i modulo ``size``.

    Args:
        rows: The number of rows R, the seats of whole games.
        seats: The number of seats of a game.
        size: The number of policies.

    Returns:
        Shape: (R,).
    """
    return np.arange(rows) % seats % size
