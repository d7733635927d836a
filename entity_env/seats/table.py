"""One game and its seats: tracks the seats inside, and checks what the game returns."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from entity_env.actions import Action
from entity_env.batching.step_results import is_over
from entity_env.environment import call_environment
from entity_env.errors import SeatError, nearest, shorten, unknown_name
from entity_env.observation import Observation
from entity_env.seats.multi_player import MultiPlayerEnvironment, Seat
from entity_env.spaces import ActionName

__all__ = ["Table", "check_turns", "seats_of"]

Told = dict[int, Observation]
"""The observations of seats by number, ascending."""


class Table:
    """Plays a game by the numbers of its seats, and checks what it returns.

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
            SeatError: Nobody takes part, or somebody is out from the beginning.
        """
        self.inside.clear()
        self._left.clear()
        told = self._told("reset", self.game.reset)
        for seat, observation in told.items():
            if is_over(observation):
                raise SeatError(
                    f"reset returned an observation of seat {self.seats[seat]!r} that is done",
                    expected="done=False, or no observation of a seat that does not take part",
                )
        if not told:
            raise SeatError(
                "reset returned no observation",
                expected="one for each seat that takes part from the beginning",
            )
        self.inside.update(told)
        self.is_over = False
        return told

    def act(self, actions: Mapping[int, Mapping[ActionName, Action]]) -> Told:
        """Go on; afterwards ``is_over`` says whether that was the end of the game.

        Raises:
            SeatError: The game ends without having let everybody go, or lets somebody go twice.
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
                    f"seat {self.seats[seat]!r} is done, and was so already",
                    expected="one end; whoever comes back sees something that is not done first",
                )
            self.inside.discard(seat)  # where the game ends before its first turn, it was not in
            self._left.add(seat)
        said = call_environment("is_over", self.game.is_over)
        self.is_over = not self.inside if said is None else bool(said)
        if self.is_over and self.inside:
            left = [self.seats[seat] for seat in sorted(self.inside)]
            raise SeatError(
                "the game is over, and seats are still in it",
                expected="an observation with done=True for each of them",
                received=shorten(left),
            )
        return told

    def set_state(self, state: Any, inside: Sequence[int]) -> Told:
        """Go back to a saved game, in which these seats are inside."""
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
        """Return the error for a game in which no seat had to act for many steps."""
        inside = [self.seats[seat] for seat in sorted(self.inside)]
        expected = "an observation with actors for a seat, or done=True for each in the game"
        if not inside:
            return SeatError(
                f"all seats are out, the game is not over, and it has asked nobody in {steps:,} "
                "steps",
                expected="is_over() returns True, or somebody comes in again",
            )
        if self._left:
            return SeatError(
                f"{shorten(inside)} vanished: others are out, and the game has asked nobody in "
                f"{steps:,} steps",
                expected=expected,
            )
        return SeatError(
            f"the game has asked nobody in {steps:,} steps",
            expected=expected,
            received=f"in the game: {shorten(inside)}",
        )

    def _told(self, what: str, function: Any, *arguments: Any) -> Told:
        returned = call_environment(what, function, *arguments)
        if not isinstance(returned, Mapping):
            raise SeatError(
                f"{what} did not return a dict",
                expected="{seat: Observation}, for all seats that something has happened to",
                received=shorten(returned),
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
                    f"{what} returned something else than an observation for seat {seat!r}",
                    expected="Observation(...)",
                    received=shorten(observation),
                )
            told[self._number[seat]] = observation
        return dict(sorted(told.items()))


class _Asked(dict[Any, Any]):
    """The actions of the asked seats, which raises an error for any other seat."""

    def __missing__(self, seat: Any) -> Any:
        raise SeatError(
            f"act wants the actions of seat {shorten(seat)}, which was not asked",
            expected=f"those of {', '.join(map(shorten, self)) or 'nobody'}",
            hint="an observation with actors asks a seat; it acts in the next step, and only then",
        )

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


def check_turns(seats: Sequence[Seat], asked: Collection[int], actions: Any) -> None:
    """Refuse actions of seats that are not asked.

    Args:
        seats: All seats of the game.
        asked: The numbers of the seats whose turn it is.
        actions: ``{seat: actions}``.

    Raises:
        SeatError: A seat acts that does not exist or was not asked, or one that was does not act.
    """
    expected = [seats[i] for i in sorted(asked)]
    if not isinstance(actions, Mapping):
        raise SeatError(
            "act was not given a dict", expected="{seat: actions}", received=shorten(actions)
        )
    for seat in actions:
        if seat in expected:
            continue
        problem = "acts out of turn" if seat in seats else "does not exist"
        raise SeatError(
            f"seat {shorten(seat)} {problem}",
            expected=f"actions of {', '.join(map(repr, expected)) or 'nobody'}",
            received=shorten(list(actions)),
            hint=nearest(seat, [own for own in seats if isinstance(own, str)])
            if seat not in seats
            else None,
        )
    for seat in expected:
        if seat not in actions:
            raise SeatError(
                f"seat {seat!r} was asked and does not act",
                expected=f"actions of {', '.join(map(repr, expected))}",
                received=shorten(list(actions)),
            )


def seats_of(game: MultiPlayerEnvironment) -> tuple[Seat, ...]:
    """Return the seats of a game; NumPy's numbers become Python's.

    Raises:
        SeatError: It has none, or names one twice, or a team has seats that there are not, or
            shares them with another.
    """
    given = game.seats()
    seats = _listed(given)
    if not seats:
        raise SeatError("seats() is no list of seats", expected="a list", received=shorten(given))
    try:
        known = set(seats)
    except Exception as error:  # lists, and whatever an odd object raises
        raise SeatError(
            "a seat cannot be looked up",
            expected="strings, numbers, tuples of them",
            received=shorten(given),
        ) from error
    if len(known) < len(seats):
        raise SeatError("seats() names a seat twice", received=shorten(list(seats)))
    of: dict[Seat, str] = {}
    teams = game.teams()
    if not isinstance(teams, Mapping):
        raise SeatError(
            "teams() is no dict", expected="{name: seats}, or {}", received=shorten(teams)
        )
    for team, members in teams.items():
        listed = _listed(members)
        if listed is None:
            raise SeatError(
                f"the seats of team {shorten(team)} are no list",
                expected="a list of seats",
                received=shorten(members),
            )
        if not listed:
            raise SeatError(
                f"team {shorten(team)} has no seats",
                expected="at least one; who is out of the game stays in its team",
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
    """Return an equal seat that JSON can hold, and that errors can print."""
    if isinstance(seat, np.generic):
        return seat.item()  # type: ignore[no-any-return]
    return tuple(map(_plain, seat)) if type(seat) is tuple else seat


def _listed(given: Any) -> tuple[Seat, ...] | None:
    """Return the seats of a list in their order; None if ``given`` is not a list."""
    if isinstance(given, str | bytes):
        return None
    try:
        return tuple(map(_plain, given))
    except Exception:  # whatever an odd object raises
        return None
