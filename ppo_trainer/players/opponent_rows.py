"""Rows some of which opponents play, so that only the learner's rows are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from entity_env import VecEnv, VecObs
from entity_env.agent import Agent, RandomAgent
from entity_env.batching.action_checks import check_actions
from entity_env.batching.ragged import ActionBuffer
from entity_env.errors import FAILURES, EntityEnvError, SeatError, SettingError
from entity_env.wrappers.vec_wrapper import act_unchecked
from ppo_trainer.experience.acting import answers_in_order, frames_of, take_frames
from ppo_trainer.players.game_rows import GameRows
from ppo_trainer.players.network_agent import NetworkAgent

__all__ = ["Lineup", "Matchmaker", "OpponentRows"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Lineup:
    """The players of a game.

    Args:
        opponent: Name of the opponent; None if the learner plays all seats.
        side: Number of the side that the learner plays.
        ratio: Probability with which the opponent was drawn, divided by that of a uniform draw.
    """

    opponent: str | None = None
    side: int = 0
    ratio: float = 1.0


class Matchmaker(Protocol):
    """The interface that draws the players of each game and receives the results."""

    def draw(self, game: int) -> Lineup:
        """Return the players of game number ``game``, which begins."""

    def agent(self, name: str) -> Agent:
        """Return the opponent with a name that ``draw`` has returned."""

    def ended(self, lineup: Lineup, score: float) -> None:
        """Handle the end of a learner's game: score 1 for a win, 0.5 for a draw, 0 for a loss."""

    def shown_name(self, name: str) -> str:
        """Return the name of an opponent as metrics contain it."""


class OpponentRows(GameRows):
    """Rows of which only the learner's are shown; agents play the others.

    ``VecObs.rows`` never contains an opponent's row. The reward of such a row is 0, it is never
    done and has no metrics, so that rollout buffers contain nothing of opponents. Rewards that a
    learner's row gets while opponents act arrive in the step in which they are paid. The players of
    a game are drawn when it begins (see ``GameTracker``). The learner's episodes against an
    opponent have the metric ``win_vs_<name>``: the game's own ``win`` or, without one, 1, 0.5 or 0
    for a return above, equal to or below 0.

    Args:
        env: Rows of games; the seats of a game are consecutive rows.
        sides: Seats of each side: a team, or a single seat. The learner plays one side.
        matchmaker: Draws the players of games.
    """

    saved_as = "opponents"

    def __init__(self, env: VecEnv, sides: Sequence[Sequence[int]], matchmaker: Matchmaker) -> None:
        super().__init__(env, sides)
        self._sides = [np.array(side, np.int64) for side in sides]
        self._matchmaker = matchmaker
        self._lineups = [Lineup()] * (len(env) // self._games.seats)
        self._is_learner = np.ones(len(env), np.bool_)
        self._player = np.zeros(len(env), np.int64)  # 0: learner, i + 1: opponent ``_names[i]``
        self._names: list[str] = []
        self._left: dict[str, Bools] = {}  # rows whose memory an agent must clear
        self._scores = np.zeros((2, len(self._lineups)))  # sum and number of scores in each game

    @property
    def lineups(self) -> list[Lineup]:
        """The players of each game."""
        return list(self._lineups)

    def _checked_actions(
        self, actions: Mapping[str, ActionBuffer], obs: VecObs
    ) -> Mapping[str, ActionBuffer]:
        return VecEnv._checked_actions(self, actions, obs)

    def _reset(self, seed: int | None) -> VecObs:
        self._inner = self.env.reset(seed)
        for name in {lineup.opponent for lineup in self._lineups} - {None}:
            self._matchmaker.agent(str(name)).reset()
        self._names, self._left = [], {}
        self._games.begin(self._inner)
        self._scores[:] = 0.0
        self._draw(range(len(self._lineups)))
        return self.observation(self._inner)

    def _act(self, chosen: Mapping[str, ActionBuffer]) -> VecObs:
        assert self._inner is not None
        actions = self._all_actions(self._inner, chosen)
        inner = self._inner = act_unchecked(self.env, actions, self._inner)
        shown = inner if self._is_learner.all() else self._of_learner(inner)
        over = self._games.follow(inner)
        if inner.done.any():
            for left in self._left.values():
                left |= inner.done
            shown = self._scored(shown)
        if len(over):
            for game in over.tolist():
                total, count = self._scores[:, game]
                if count:
                    self._matchmaker.ended(self._lineups[game], total / count)
            self._scores[:, over] = 0.0
            self._draw(over.tolist())
        return self.observation(shown)

    def _all_actions(
        self, obs: VecObs, chosen: Mapping[str, ActionBuffer]
    ) -> Mapping[str, ActionBuffer]:
        """Return the learner's actions, and those of all opponents that must act."""
        players = self._player[obs.rows]
        if not players.any():
            return chosen
        places, parts = [np.flatnonzero(players == 0)], [chosen]
        for number, name in enumerate(self._names, start=1):
            mine = np.flatnonzero(players == number)
            if len(mine):
                places.append(mine)
                parts.append(self._opponent(name, obs, mine))
        return answers_in_order(parts, places)

    def _opponent(self, name: str, obs: VecObs, places: Ints) -> Mapping[str, ActionBuffer]:
        agent = self._matchmaker.agent(name)
        ended = self._left[name]
        shown = replace(
            frames_of(obs, places),
            rows=obs.rows[places],
            reward=np.zeros(len(self), np.float32),
            done=ended.copy(),
            truncated=np.zeros(len(self), np.bool_),
        )
        ended[:] = False
        try:
            answers = agent.act_rows(shown)
            if isinstance(agent, NetworkAgent | RandomAgent):
                return answers
            return check_actions(answers, shown, self.action_space())
        except EntityEnvError as error:
            who = f"opponent {name!r}"
            error.where = f"{who}, {error.where}" if error.where else who
            raise
        except FAILURES as error:
            raise SettingError(
                f"the opponent {name!r} failed: {type(error).__name__}: {error}",
                expected=f"a player of actions {list(self.action_space())} among entities "
                f"{list(self.obs_space().entities)}",
                hint="a script for another game, or for other settings of it, cannot play it",
            ) from error

    def _of_learner(self, obs: VecObs) -> VecObs:
        """Remove the rewards, ends and metrics of the opponents' rows; keep all frames."""
        learns = self._is_learner
        final = obs.final
        if final is not None:
            kept = np.flatnonzero(learns[obs.truncated])
            final = frames_of(final, kept) if len(kept) else None
        done = obs.done & learns
        metrics = {}
        if done.any():
            columns = {
                name: np.where(learns, column, np.nan) for name, column in obs.metrics.items()
            }
            metrics = {n: column for n, column in columns.items() if not np.isnan(column).all()}
        return replace(
            obs,
            reward=np.where(learns, obs.reward, np.float32(0.0)),
            done=done,
            truncated=obs.truncated & learns,
            metrics=metrics,
            final=final,
        )

    def _scored(self, obs: VecObs) -> VecObs:
        """Add the metrics ``win_vs_...`` of the episodes that have ended."""
        rows = np.flatnonzero(obs.done)
        added: dict[str, npt.NDArray[np.float64]] = {}
        for row in rows.tolist():
            game = row // self._games.seats
            opponent = self._lineups[game].opponent
            if opponent is None:
                continue
            score = _score(obs.metrics, row)
            self._scores[:, game] += score, 1.0
            name = f"win_vs_{self._matchmaker.shown_name(opponent)}"
            added.setdefault(name, np.full(len(self), np.nan))[row] = score
        return replace(obs, metrics={**obs.metrics, **added}) if added else obs

    def observation(self, obs: VecObs) -> VecObs:
        """Return the frames of the learner's rows."""
        mine = self._is_learner[obs.rows]
        if mine.all():
            return obs
        return take_frames(obs, np.flatnonzero(mine))

    def _draw(self, games: Any) -> None:
        """Draw the players of the games that begin."""
        seats = self._games.seats
        for game in games:
            self._seat(game, self._matchmaker.draw(game))
        rows = (np.array(list(games))[:, None] * seats + np.arange(seats)).ravel()
        for number, name in enumerate(self._names, start=1):
            left = self._left.setdefault(name, np.zeros(len(self), np.bool_))
            left[rows[self._player[rows] == number]] = True

    def _seat(self, game: int, lineup: Lineup) -> None:
        """Store which player plays each row of a game."""
        seats = self._games.seats
        if not 0 <= lineup.side < len(self._sides):
            raise SeatError(
                f"the learner cannot play side {lineup.side}, which does not exist",
                expected=f"a number below {len(self._sides)}",
            )
        self._lineups[game] = lineup
        rows = slice(game * seats, (game + 1) * seats)
        if lineup.opponent is None:
            self._player[rows], self._is_learner[rows] = 0, True
            return
        if lineup.opponent not in self._names:
            playing = {lineup.opponent for lineup in self._lineups}
            free = [i for i, name in enumerate(self._names) if name not in playing]
            if free:
                self._left.pop(self._names[free[0]], None)
                self._names[free[0]] = lineup.opponent
            else:
                self._names.append(lineup.opponent)
        self._player[rows] = self._names.index(lineup.opponent) + 1
        self._player[game * seats + self._sides[lineup.side]] = 0
        self._is_learner[rows] = self._player[rows] == 0

    def own_state(self) -> Any:
        """Return the additional state as JSON values."""
        return {
            "games": self._games.get_state(),
            "lineups": [[lineup.opponent, lineup.side, lineup.ratio] for lineup in self._lineups],
            "names": self._names,
            "left": [np.flatnonzero(self._left[name]).tolist() for name in self._names],
            "scores": self._scores.tolist(),
        }

    def _set_own_state(self, state: Any) -> None:
        lineups = [Lineup(n, int(side), *map(float, r)) for n, side, *r in state["lineups"]]
        names = [str(name) for name in state["names"]]
        scores = np.array(state["scores"], np.float64)
        left = {name: np.zeros(len(self), np.bool_) for name in names}
        for name, ended in zip(names, state["left"], strict=True):
            left[name][np.array(ended, np.int64)] = True
        if len(lineups) != len(self._lineups) or scores.shape != self._scores.shape:
            raise ValueError(f"{len(lineups)} games")
        self._games.set_state(state["games"])
        self._names, self._left, self._scores = names, left, scores
        for game, lineup in enumerate(lineups):
            self._seat(game, lineup)


def _score(metrics: Mapping[str, npt.NDArray[np.float64]], row: int) -> float:
    """Return the score of an episode: its ``win``, or 1, 0.5 or 0 by the sign of its return."""
    if "win" in metrics and not np.isnan(metrics["win"][row]):
        return float(metrics["win"][row])
    reward = metrics.get("episodic_reward")
    return 0.5 if reward is None else float((np.sign(reward[row]) + 1) / 2)
