"""One seat of a game of several players as a plain ``Environment``: opponents play the others."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.actions import Action
from entity_env.agent import Agent, Policy
from entity_env.arguments import named_arguments
from entity_env.batching.frame import Frame
from entity_env.batching.frame_reader import FrameReader
from entity_env.environment import MOST_RESETS, Environment, never_begins
from entity_env.errors import (
    ResetNeededError,
    SeatError,
    SettingError,
    shorten,
    unknown_name,
)
from entity_env.observation import Observation
from entity_env.seats.multi_player import MultiPlayerEnvironment, Seat
from entity_env.seats.seat_player import SeatPlayer
from entity_env.seats.seat_rows import MOST_IDLE_STEPS
from entity_env.seats.table import Table, Told
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["MaskedEnvironment", "Opponent", "who_is_who"]

Opponent: TypeAlias = str | Agent | Policy
"""``random``, a run folder, an agent, or a function from an observation to actions."""


@named_arguments(SettingError)
class MaskedEnvironment(Environment):
    """A game of several players as one of them sees it.

    What the learner sees is what the game shows its seat, and nothing else. Its reward is all that
    the seat has got since its last action. An episode ends when the seat is out; the others do not
    play to the end. A game that ends before the learner's first turn is not an episode.

    Args:
        game: The game, or its class.
        opponents: Who plays the other seats: one for all, or a list with one for each. They are
            drawn anew for each episode where they are more than one and seats are shuffled. What
            an agent remembers belongs to a seat of this game: it plays with copies of its own.
        shuffle_seats: Whether the learner gets another seat in each episode.
        seat: The learner's seat where seats are not shuffled; the first one if None.
        trust: The consent to import code that opponents' run folders name.
        **settings: Of the game.

    Raises:
        SettingError: Opponents that are none, or another number of them than of other seats.
        SeatError: A seat that does not exist.
    """

    def __init__(
        self,
        game: MultiPlayerEnvironment | Callable[..., MultiPlayerEnvironment],
        opponents: Opponent | Sequence[Opponent] = "random",
        shuffle_seats: bool = True,
        seat: Seat | None = None,
        trust: bool = False,
        **settings: Any,
    ) -> None:
        self._game = _game(game, settings)
        self._table = Table(self._game)
        self._reader = FrameReader(self._game.obs_space(), self._game.action_space())
        others = len(self._table.seats) - 1
        each: list[Any] = (
            list(opponents) if isinstance(opponents, list | tuple) else [opponents] * others
        )
        if len(each) != others:
            raise SettingError(
                "the number of opponents is not that of the other seats",
                expected=f"one opponent for all, or a list of {others}",
                received=len(each),
            )
        spaces = self._reader.obs_space, self._reader.action_space
        inside = functools.partial(_inside, self._table)
        # An agent that is named twice is one player, loaded once.
        made = {
            key: SeatPlayer(own, self._game, self._table.seats, spaces, inside, trust)
            for key, own in {_key(own): own for own in each}.items()
        }
        self._opponents = [made[_key(own)] for own in each]
        self._shuffle = shuffle_seats
        self._learner = self._number_of(seat)
        self._players: dict[int, SeatPlayer] = {}
        self._asked: dict[int, tuple[Observation, Frame]] = {}
        self.y_axis = self._game.y_axis

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        return self._reader.obs_space

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """Return the action space."""
        return self._reader.action_space

    @property
    def unwrapped(self) -> MultiPlayerEnvironment:
        """The game itself, of which the learner sees a part."""
        return self._game

    @property
    def seat(self) -> Seat:
        """The learner's seat in this episode."""
        return self._table.seats[self._learner]

    @property
    def players(self) -> dict[Seat, str]:
        """The player of each seat in this episode, the learner included."""
        names = {seat: player.name for seat, player in self._players.items()}
        return {
            seat: "the learner" if i == self._learner else names.get(i, "nobody")
            for i, seat in enumerate(self._table.seats)
        }

    def seed(self, seed: int) -> None:
        """Seed the seats' order, the game, and what opponents draw."""
        super().seed(seed)
        self._game.seed(int(self.rng.integers(2**32)))
        for opponent in dict.fromkeys(self._opponents):
            opponent.seed(int(self.rng.integers(2**32)))

    def reset(self) -> Observation:
        """Deal the seats, and play until the learner is asked.

        Games that are over without it are not episodes, and others are begun.
        """
        for _ in range(MOST_RESETS):
            shown = self._deal()
            if shown is not None:
                return shown
        raise never_begins()

    def _deal(self) -> Observation | None:
        """Begin a game; what the learner sees at its first turn, or None where it has none."""
        opponents = list(self._opponents)
        if self._shuffle:
            self._learner = int(self.rng.integers(len(self._table.seats)))
            self.rng.shuffle(opponents)  # type: ignore[arg-type]
        others = [i for i in range(len(self._table.seats)) if i != self._learner]
        self._players = dict(zip(others, opponents, strict=True))
        for opponent in dict.fromkeys(opponents):
            opponent.reset()
        self._asked = {}
        shown = self._play_on(self._table.reset())
        if shown is None or shown.done:
            return None
        shown.reward = 0.0
        return shown

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Play until the learner is asked again, or out.

        Raises:
            ResetNeededError: The learner is not in a game.
        """
        if self._learner not in self._table.inside:
            raise ResetNeededError("the learner is not in a game", hint="call reset() first")
        shown = self._play_on(self._next({self._learner: actions}))
        assert shown is not None  # a game is not over while somebody is in it: ``Table`` checks
        return shown

    def _play_on(self, told: Told) -> Observation | None:
        """Play until the learner is asked, or out; None where the game is over without it."""
        reward, metrics = 0.0, dict[str, float]()
        for _ in range(MOST_IDLE_STEPS):
            asked = self._note(told)
            own = told.get(self._learner)
            if own is not None:
                reward += float(own.reward)
                metrics = {**metrics, **own.metrics}
                if own.done or own.truncated or asked:
                    shown = copy.copy(own)
                    shown.reward, shown.metrics = reward, metrics
                    return shown
            if self._table.is_over:
                return None
            told = self._next({})
        raise SeatError(
            f"the learner has not been asked in {MOST_IDLE_STEPS:,} steps",
            expected="an observation with actors for its seat, or done=True",
        )

    def _note(self, told: Told) -> bool:
        """Remember the asked seats; return True if the learner is among them."""
        for seat, observation in told.items():
            frame = self._reader.read(observation)
            self._asked.pop(seat, None)
            if frame.done and seat in self._players:
                self._players[seat].ended(seat)
            if not frame.done and any(len(mask.actors) for mask in frame.actions.values()):
                self._asked[seat] = observation, frame
        return self._asked.pop(self._learner, None) is not None

    def _next(self, actions: dict[int, Mapping[ActionName, Action]]) -> Told:
        """Let all asked seats act, the learner with ``actions``."""
        asked: dict[SeatPlayer, dict[int, tuple[Observation, Frame]]] = {}
        for seat, player in self._players.items():
            if seat in self._asked:
                asked.setdefault(player, {})[seat] = self._asked.pop(seat)
        for player, shown in asked.items():
            actions |= player.act(shown)
        return self._table.act(actions)

    def has_state(self) -> bool:
        """Return False: opponents may have states of their own."""
        return False

    def render(self, **kwargs: Any) -> npt.NDArray[np.uint8]:
        """Return the game's picture, in which hidden things may be seen."""
        return self._game.render(**kwargs)

    def render_text(self) -> str:
        """Return the game as text."""
        return self._game.render_text()

    def close(self) -> None:
        """Close the game."""
        self._game.close()

    def _number_of(self, seat: Seat | None) -> int:
        seats = self._table.seats
        if seat is None:
            return 0
        if seat not in seats:
            raise unknown_name(SeatError, f"there is no seat {shorten(seat)}", seat, seats)
        return seats.index(seat)


def who_is_who(env: Environment) -> str:
    """Return the player of each seat in one line; empty for one player."""
    while isinstance(inner := getattr(env, "env", None), Environment):
        env = inner
    if not isinstance(env, MaskedEnvironment):
        return ""
    return ", ".join(f"{seat}: {player}" for seat, player in env.players.items())


def _key(opponent: Any) -> Any:
    """Return what two mentions of one opponent share."""
    return opponent if isinstance(opponent, str) else id(opponent)


def _inside(table: Table) -> Collection[int]:
    """Return the seats in the game; no lambda, as copies ask their own table."""
    return table.inside


def _game(
    game: MultiPlayerEnvironment | Callable[..., MultiPlayerEnvironment],
    settings: Mapping[str, Any],
) -> MultiPlayerEnvironment:
    made: Any = game
    if not isinstance(made, MultiPlayerEnvironment) and callable(made):
        made = made(**settings)
    if not isinstance(made, MultiPlayerEnvironment):
        raise SettingError(
            "the game of a MaskedEnvironment has no seats",
            expected="a subclass of MultiPlayerEnvironment, or an instance",
            received=shorten(game),
        )
    return made
