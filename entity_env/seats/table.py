"""A game of several players, the seats in it, and checks of its observations."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from entity_env.actions import Action
from entity_env.batching.step_results import is_over
from entity_env.environment import call_environment
from entity_env.errors import FAILURES, SeatError, counted, shorten, unknown_name
from entity_env.habits import returned_hint
from entity_env.multi_player import MultiPlayerEnvironment, Seat
from entity_env.observation import Observation
from entity_env.spaces import ActionName

__all__ = ["Peeked", "Table", "seats_of"]

Told = dict[int, Observation]
"""The observations of seats by number, ascending."""


class Table:
    """A game of several players, whose seats are numbered and whose results are checked.

    Args:
        game: The game.
    """

    def __init__(self, game: MultiPlayerEnvironment) -> None:
        self.game = game
        self.seats = seats_of(game)
        self.is_over = True
        self._number = {seat: i for i, seat in enumerate(self.seats)}
        self.inside: set[int] = set()
        self._left: set[int] = set()

    def reset(self) -> Told:
        """Start a game.

        Raises:
            SeatError: No seat takes part, or a seat is done from the beginning.
        """
        self.inside.clear()
        self._left.clear()
        told = self._told("reset", self.game.reset)
        for seat, observation in told.items():
            if is_over(observation):
                raise SeatError(
                    f"reset returned an observation of seat {self.seats[seat]!r} that is done",
                    expected="done=False, or no observation for a seat that does not take part",
                )
        if not told:
            raise SeatError(
                "reset returned no observations",
                expected="one for each seat that takes part from the beginning",
            )
        self.inside.update(told)
        self.is_over = False
        return told

    def act(self, actions: Mapping[int, Mapping[ActionName, Action]]) -> Told:
        """Play one step, and set ``is_over``.

        Raises:
            SeatError: The game ends while seats are still in it, or a seat is done twice.
        """
        own = _Asked({self.seats[seat]: taken for seat, taken in actions.items()})
        told = self._told("act", self.game.act, own)
        for seat, observation in told.items():
            if not is_over(observation):
                self.inside.add(seat)
                self._left.discard(seat)
                continue
            if seat in self._left:
                raise SeatError(
                    f"seat {self.seats[seat]!r} is done, and was done already",
                    expected="done=True once; a seat that comes back first gets done=False",
                )
            self.inside.discard(seat)  # it is absent if the game ends before its first turn
            self._left.add(seat)
        said = call_environment("is_over", self.game.is_over)
        self.is_over = not self.inside if said is None else bool(said)
        if self.is_over and self.inside:
            left = [self.seats[seat] for seat in sorted(self.inside)]
            raise SeatError(
                "the game is over, but seats are still in it",
                expected="an observation with done=True for each of them",
                received=shorten(left),
            )
        return told

    def set_state(self, state: Any, inside: Sequence[int]) -> Told:
        """Restore a saved game, in which these seats take part."""
        told = self._told("set_state", self.game.set_state, state)
        if not set(told) <= set(inside):
            raise SeatError(
                "set_state returned observations of seats that were not in the game",
                received=shorten([self.seats[i] for i in sorted(set(told) - set(inside))]),
            )
        self.inside = set(inside)
        self._left.clear()
        self.is_over = False
        return told

    def asks_nobody(self, steps: int) -> SeatError:
        """Return the error for a game in which no seat has had to act for many steps."""
        inside = [self.seats[seat] for seat in sorted(self.inside)]
        expected = "an observation with actors for a seat, or done=True for each in the game"
        if not inside:
            return SeatError(
                f"all seats are out, the game is not over, and no seat had to act in {steps:,} "
                "steps",
                expected="is_over() returns True, or a seat gets an observation again",
            )
        if self._left:
            return SeatError(
                f"seats {shorten(inside)} are still in the game, but neither had to act nor got "
                f"done=True in {counted(steps, 'step')}, while other seats are out",
                expected=expected,
            )
        return SeatError(
            f"no seat had to act in {counted(steps, 'step')}",
            expected=expected,
            received=f"in the game: {shorten(inside)}",
        )

    def _told(self, what: str, function: Any, *arguments: Any) -> Told:
        returned = call_environment(what, function, *arguments)
        if not isinstance(returned, Mapping):
            raise SeatError(
                f"{what} did not return a dict",
                expected="{seat: Observation}",
                received=shorten(returned),
                hint=returned_hint(returned, "{seat: Observation}"),
            )
        told: Told = {}
        for seat, observation in returned.items():
            if seat not in self._number:
                raise unknown_name(
                    SeatError,
                    f"{what} returned an observation of seat {shorten(seat)}, which does not exist",
                    seat,
                    self.seats,
                )
            if not isinstance(observation, Observation):
                raise SeatError(
                    f"{what} did not return an Observation for seat {seat!r}",
                    expected="Observation(...)",
                    received=shorten(observation),
                )
            told[self._number[seat]] = observation
        return dict(sorted(told.items()))


class _Asked(dict[Any, Any]):
    """The actions of the seats that act, which raises an error for any other seat."""

    def __missing__(self, seat: Any) -> Any:
        raise SeatError(
            f"act reads the actions of seat {shorten(seat)}, which did not have to act",
            expected=f"only actions of {', '.join(map(shorten, self)) or 'no seat'}",
            hint="a seat acts only in the step after an observation with actors",
        )

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


class Peeked:
    """A wrapper of ``create_env`` that makes the first environment early, to inspect it.

    Errors while the first one is made are raised when it is requested.

    Args:
        create_env: Function that makes one environment, or one game of several players.

    Attributes:
        is_game: True if the function makes games of several players.
        seats: Number of seats of a game; 1 for environments.
    """

    def __init__(self, create_env: Callable[[], Any]) -> None:
        self._create_env = create_env
        self._first: list[Callable[[], Any]] = []
        self.is_game, self.seats = False, 1
        if not callable(create_env):
            return
        try:
            made = create_env()
        except FAILURES as error:
            self._first.append(_raising(error))
            return
        self._first.append(lambda: made)
        self.is_game = isinstance(made, MultiPlayerEnvironment)
        if self.is_game:
            self.seats = len(seats_of(made))

    def __call__(self) -> Any:
        """Return the next environment or game."""
        if not callable(self._create_env):  # ``ListEnv`` raises the error
            return self._create_env
        return self._first.pop()() if self._first else self._create_env()


def _raising(error: BaseException) -> Callable[[], Any]:
    def again() -> Any:
        raise error

    return again


def seats_of(game: MultiPlayerEnvironment) -> tuple[Seat, ...]:
    """Return the seats of a game, with NumPy numbers converted to Python's.

    Raises:
        SeatError: There are no seats, a seat is named twice, or a team has unknown seats or shares
            seats with another team.
    """
    given = game.seats()
    seats = _listed(given)
    if not seats:
        raise SeatError("seats() is not a list", expected="a list", received=shorten(given))
    try:
        known = set(seats)
    except Exception as error:  # lists raise TypeError, other objects may raise anything
        raise SeatError(
            "a seat cannot be hashed or compared",
            expected="strings, numbers, or tuples of them",
            received=shorten(given),
        ) from error
    if len(known) < len(seats):
        raise SeatError("seats() names a seat twice", received=shorten(list(seats)))
    of: dict[Seat, str] = {}
    teams = game.teams()
    if not isinstance(teams, Mapping):
        raise SeatError(
            "teams() is not a dict", expected="{name: seats}, or {}", received=shorten(teams)
        )
    for team, members in teams.items():
        listed = _listed(members)
        if listed is None:
            raise SeatError(
                f"the seats of team {shorten(team)} are not a list",
                expected="a list of seats",
                received=shorten(members),
            )
        if not listed:
            raise SeatError(
                f"team {shorten(team)} has no seats",
                expected="at least one seat; a seat that is out of the game stays in its team",
            )
        for seat in listed:
            if not isinstance(seat, Hashable) or seat not in known:
                raise SeatError(
                    f"team {team!r} has a seat that does not exist",
                    received=shorten(seat),
                    options=map(str, seats),
                )
            if seat in of:
                raise SeatError(f"seat {seat!r} is in two teams", received=[of[seat], team])
            of[seat] = team
    return seats


def _plain(seat: Any) -> Seat:
    """Return an equal seat of Python's types, for JSON and error messages."""
    if isinstance(seat, np.generic):
        return seat.item()  # type: ignore[no-any-return]
    return tuple(map(_plain, seat)) if type(seat) is tuple else seat


def _listed(given: Any) -> tuple[Seat, ...] | None:
    """Return the seats of a list in their order; None if ``given`` is not a list."""
    if isinstance(given, str | bytes):
        return None
    try:
        return tuple(map(_plain, given))
    except Exception:  # an object may raise anything
        return None
