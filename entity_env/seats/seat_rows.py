"""Games of several players as the rows of a ``VecEnv``: one row for each seat."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from entity_env.actions import Action
from entity_env.arguments import named_arguments
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.row_reader import ReadRows, RowReader
from entity_env.batching.vec_obs import VecObs
from entity_env.errors import DAMAGES, EntityEnvError, SeatError, SettingError, counted
from entity_env.garbage import uncollected
from entity_env.metrics import EpisodeTracker, metric_columns
from entity_env.multi_player import MultiPlayerEnvironment
from entity_env.observation import Observation
from entity_env.rows.row_environments import RowEnvironments, RowsOfEnvironments
from entity_env.rows.vec_env import LIVE, check_count, check_saved_rows, damaged_state
from entity_env.seats.table import Table, Told
from entity_env.spaces import ActionName

__all__ = ["MOST_IDLE_STEPS", "SeatObservation", "SeatRows"]

MOST_IDLE_STEPS = 10_000
"""The number of steps in a row without an actor at which an error is raised."""


class SeatObservation(NamedTuple):
    """The latest observation of a row, and the function of its game that returned it."""

    row: int
    observation: Observation
    what: str


@named_arguments(SettingError)
class SeatRows(RowsOfEnvironments):
    """Rows of games of several players, with a row for each seat.

    The seats of a game are consecutive rows. ``VecObs.rows`` lists the seats that must act. In each
    step, the games continue with the actions of these seats; a game without such seats continues,
    too. A game that is over restarts in the same step. The length of a seat's episode is the
    number of its own decisions.

    Args:
        create_env: Function that makes one game; called once for each game.
        num_envs: The number of rows R, a multiple of the number of seats.
        seed: Seed of all games; game i uses the i-th spawned random stream.
        first_row: Number of the first row in errors and seeds, if the rows are a part of a larger
            set.
        on_row: Called with (row, step) before a game runs, with the row of its first seat.
    """

    def __init__(
        self,
        create_env: Callable[[], MultiPlayerEnvironment],
        num_envs: int,
        seed: int = 0,
        *,
        first_row: int = 0,
        on_row: Callable[[int, int], None] | None = None,
    ) -> None:
        check_count("number of environments", num_envs)
        self._create_env = create_env
        self._tables: list[Table] = []
        self._envs = self._games_of(0, on_row, MultiPlayerEnvironment, self._set_tables)
        LIVE.add(self)
        try:
            self._sit_down(create_env, num_envs, first_row)
            self._seed_all(seed)
        except BaseException:
            with contextlib.suppress(EntityEnvError):  # report the first error
                self._close()
            raise

    _reads_frames = False  # True to read observations one by one, as ``TableRows`` needs them
    _games_of: type[RowEnvironments] = RowEnvironments

    def _sit_down(
        self, create_env: Callable[[], MultiPlayerEnvironment], num_envs: int, first_row: int
    ) -> None:
        """Make the games, whose first one has the number of seats."""
        self._envs.make(create_env, 1)
        self._envs.seats, self._envs.first = len(self._seats), first_row // len(self._seats)
        if num_envs % len(self._seats):
            below = num_envs - num_envs % len(self._seats)
            raise SettingError(
                f"{counted(num_envs, 'row')} cannot be shared by games of {len(self._seats)} seats",
                expected=f"a multiple of {len(self._seats)}, such as {below + len(self._seats)}",
                received=num_envs,
            )
        games = num_envs // len(self._seats)
        self._reader = RowReader(**self._envs.make(create_env, games))
        self._episodes = [EpisodeTracker() for _ in range(num_envs)]
        self._rows: ReadRows = None  # type: ignore[assignment]  # the frames of the next actions
        self._asked = np.zeros(0, np.int64)
        self._idle = np.zeros(games, np.int64)

    def __len__(self) -> int:
        """Return the number of rows: games times seats."""
        return len(self._episodes)

    @property
    def num_seats(self) -> int:
        """The number of rows of one game."""
        return len(self._seats)

    def alike(self, num_envs: int) -> SeatRows:
        """Make other rows of the same games, for instance for a search."""
        return SeatRows(self._create_env, num_envs)

    def resample(self, games: npt.NDArray[np.bool_]) -> VecObs:
        """Draw anew what the acting seats of some games (G,) cannot see; return the observation."""
        for row in self._asked.tolist():
            game, seat = divmod(row, len(self._seats))
            if games[game]:
                inner = self._envs.innermost(game)
                self._envs.call(game, "resample", inner.resample, self._seats[seat])
        return self.set_state(self.get_state())

    def has_state(self) -> bool:
        """Return True if every game saves and restores its state."""
        return all(table.game.has_state() for table in self._tables)

    @uncollected
    def _reset(self, seed: int | None) -> VecObs:
        if seed is not None:
            self._seed_all(seed)
        self._envs.step = 0
        self._idle[:] = 0
        for episode in self._episodes:  # also of seats that join later
            episode.begin({})
        return self._begun(self._began(range(len(self._tables))))

    @uncollected
    def _act(self, chosen: Mapping[ActionName, ActionBuffer]) -> VecObs:
        self._envs.step += 1
        seen: list[SeatObservation] = []
        for game, answers in enumerate(self._answers(chosen)):
            told = self._envs.call(game, "act", self._tables[game].act, answers)
            seen += self._seen(game, told, "act")
        now = self._read(seen)
        outcome = now.outcome
        reward = np.zeros(len(self))
        done, truncated = np.zeros((2, len(self)), np.bool_)
        rows = [own.row for own in seen]
        reward[rows], done[rows], truncated[rows] = (
            outcome.rewards, outcome.done, outcome.truncated
        )  # fmt: skip
        for row in self._asked.tolist():
            self._episodes[row].length += 1
        for row, paid, metrics in zip(rows, outcome.rewards.tolist(), outcome.metrics, strict=True):
            self._episodes[row].add(paid, metrics, steps=0)
        summaries: list[dict[str, float] | None] = [None] * len(self)
        ended, final = np.flatnonzero(done).tolist(), None
        for row in ended:
            summaries[row] = self._episodes[row].summary()
            self._episodes[row].begin({})
        if ended and truncated.any():
            final = self._read([own for own in seen if truncated[own.row]]).obs
        is_over = [table.is_over for table in self._tables]
        self._ask(seen, now, [game for game, ended in enumerate(is_over) if ended])
        return replace(
            self._rows.obs,
            rows=self._asked,
            reward=reward.astype(np.float32),
            done=done,
            truncated=truncated,
            metrics=metric_columns(summaries) if ended else {},
            final=final,
            over=np.repeat(is_over, len(self._seats)),
        )

    def _ask(self, seen: list[SeatObservation], now: ReadRows, over: list[int]) -> None:
        """Restart the games that are over, and set the seats that must act, and their frames."""
        asked = [own for own, acts in zip(seen, self._must_act(now), strict=True) if acts]
        if over:
            began = self._began(over)
            first = self._read(began)
            self._begin_episodes(began, first)
            asked += [own for own, acts in zip(began, self._must_act(first), strict=True) if acts]
            asked.sort(key=lambda own: own.row)
        # Compare by identity, because the equality of arrays has no single truth value.
        is_read = list(map(id, asked)) == list(map(id, seen))
        self._rows = now if is_read else self._read(asked)
        self._asked = np.array([own.row for own in asked], np.int64)
        self._count_idle()

    def _must_act(self, now: ReadRows) -> Sequence[bool]:
        """Return True for each observation that has actors and is not the last one."""
        acts = np.zeros(len(now.obs), np.bool_)
        for mask in now.obs.action_masks.values():
            acts |= np.asarray(mask.actors.size1()) > 0
        must_act: list[bool] = (acts & ~now.obs.done).tolist()
        return must_act

    def _begun(self, began: list[SeatObservation]) -> VecObs:
        """Return the first observation after a reset or a restored state."""
        now = self._read(began)
        self._begin_episodes(began, now)
        self._ask(began, now, [])
        nothing = np.zeros(len(self), np.bool_)
        reward = np.zeros(len(self), np.float32)
        return replace(
            self._rows.obs, rows=self._asked, reward=reward, done=nothing, truncated=nothing
        )

    def _begin_episodes(self, began: list[SeatObservation], now: ReadRows) -> None:
        """Begin the episodes of seats whose game has begun; those of restored games continue."""
        for own, metrics in zip(began, now.outcome.metrics, strict=True):
            if own.what == "reset":
                self._episodes[own.row].begin(metrics)

    def _began(self, games: Any) -> list[SeatObservation]:
        seen: list[SeatObservation] = []
        for game in games:
            seen += self._seen(
                game, self._envs.call(game, "reset", self._tables[game].reset), "reset"
            )
        return seen

    def _answers(
        self, chosen: Mapping[ActionName, ActionBuffer]
    ) -> list[dict[int, dict[ActionName, Action]]]:
        """Return the actions of each seat that had to act, game by game."""
        answers: list[dict[int, dict[ActionName, Action]]] = [{} for _ in self._tables]
        typed = self._rows.typed_actions(chosen, self.action_space())
        for row, own in zip(self._asked.tolist(), typed, strict=True):
            game, seat = divmod(row, len(self._seats))
            answers[game][seat] = own
        return answers

    def _seen(self, game: int, told: Told, what: str) -> list[SeatObservation]:
        first = game * len(self._seats)
        return [
            SeatObservation(first + seat, observation, what) for seat, observation in told.items()
        ]

    def _read(self, seen: list[SeatObservation]) -> ReadRows:
        def where(i: int) -> str:
            game, seat = divmod(seen[i].row, len(self._seats))
            return f"{self._envs.where(game)}, seat {self._seats[seat]!r}, {seen[i].what}"

        read = self._reader.read_each if self._reads_frames else self._reader.read
        return read([own.observation for own in seen], where)

    def _count_idle(self) -> None:
        self._idle += 1
        self._idle[self._asked // len(self._seats)] = 0
        if self._idle.max() > MOST_IDLE_STEPS:
            game = int(self._idle.argmax())
            raise self._tables[game].asks_nobody(MOST_IDLE_STEPS).located(self._envs.where(game))

    def _seed_all(self, seed: int) -> None:
        self._envs.seed(seed)

    def _get_state(self) -> list[Any]:
        state: list[Any] = []
        for game, table in enumerate(self._tables):
            shared = {
                "env": self._envs.call(game, "get_state", table.game.get_state),
                "rng": table.game.rng.bit_generator.state,
                "step": self._envs.step,
                "idle": int(self._idle[game]),
            }
            for seat in range(len(self._seats)):
                episode = self._episodes[game * len(self._seats) + seat].get_state()
                own = {"inside": seat in table.inside, "episode": episode}
                state.append(own if seat else {**own, "game": shared})
        return state

    def _set_state(self, state: list[Any]) -> VecObs:
        check_saved_rows(state, len(self))
        seen: list[SeatObservation] = []
        for game, table in enumerate(self._tables):
            first = game * len(self._seats)
            saved = state[first : first + len(self._seats)]
            try:
                shared = saved[0]["game"]
                table.game.rng.bit_generator.state = shared["rng"]
                self._envs.step, self._idle[game] = int(shared["step"]), int(shared["idle"])
                inside = [seat for seat, own in enumerate(saved) if own["inside"]]
                for seat, own in enumerate(saved):
                    self._episodes[first + seat].set_state(own["episode"])
                own = shared["env"]
            except DAMAGES as error:
                raise damaged_state(saved, error).located(self._envs.where(game)) from error
            told = self._envs.call(game, "set_state", table.set_state, own, inside)
            seen += self._seen(game, told, "set_state")
        return self._begun(seen)

    def _render(self, **kwargs: Any) -> list[npt.NDArray[np.uint8]]:
        pictures = [
            self._envs.call(game, "render", lambda t=table: t.game.render(**kwargs))
            for game, table in enumerate(self._tables)
        ]
        return [picture for picture in pictures for _ in self._seats]

    def _set_tables(self, games: Sequence[MultiPlayerEnvironment]) -> None:
        """Set the tables of the games, whose seats must be the same."""
        tables = [self._envs.call(i, "seats", Table, game) for i, game in enumerate(games)]
        seats = (self._tables or tables)[0].seats
        for game, table in enumerate(tables):
            if table.seats != seats:
                raise SeatError(
                    "the games differ in their seats",
                    expected=list(seats),
                    received=list(table.seats),
                ).located(self._envs.where(game))
        self._seats, self._tables = seats, tables
