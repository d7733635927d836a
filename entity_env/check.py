"""Check of environments for mistakes.

from entity_env import check_env
check_env(MyEnv)

python -m entity_env.check my_pkg.my_env.MyEnv
python -m entity_env.check minesweeper width=8

"""

from __future__ import annotations

import copy
import inspect
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from entity_env.agent import random_policy
from entity_env.batching.vec_obs import VecObs
from entity_env.checking.check_notes import Seen, notes_of
from entity_env.checking.check_seats import BetweenSeats, notes_of_seats
from entity_env.checking.check_state import check_state
from entity_env.checking.check_tools import COPIES, Between, check_spaces, difference, pack_obs
from entity_env.command_line import environment_parser, game_from_words, run_program
from entity_env.coordinates import Coordinates, find_coordinates
from entity_env.environment import Environment, Playable
from entity_env.errors import (
    FAILURES,
    EntityEnvError,
    EnvironmentFailedError,
    MissingPackageError,
    ObservationError,
    SettingError,
    counted,
    shorten,
)
from entity_env.multi_player import MultiPlayerEnvironment
from entity_env.observation import Observation
from entity_env.own_methods import OwnMethodWarning
from entity_env.registry import check_settings
from entity_env.rows.list_env import ListEnv
from entity_env.rows.vec_env import VecEnv, check_count
from entity_env.seats.seat_rows import SeatRows
from entity_env.seats.table import Peeked, seats_of

__all__ = ["Checked", "check_env"]

_LEAST_STEPS = 200
"""Least number of steps of each game; if episodes are short, more of them are played."""
_MOST_STEPS = 300
"""Largest number of steps for each requested episode; longer games are cut off."""
_LOOK_EVERY = 7
"""Number of steps from one picture to the next, because pictures are slow."""


@dataclass(frozen=True)
class Checked:
    """The result of a check without mistakes.

    Args:
        episodes: Number of episodes that ended.
        steps: Number of steps.
        notes: Notes on things that are not mistakes, but rarely intended.
        positions: The coordinates that a training finds, or candidates.
    """

    episodes: int
    steps: int
    notes: tuple[str, ...]
    positions: Coordinates


def check_env(
    env: Callable[[], Environment | MultiPlayerEnvironment] | Environment | MultiPlayerEnvironment,
    episodes: int = 3,
    seed: int = 0,
) -> Checked:
    """Play random episodes and raise an error for the first mistake.

    The check requires that spaces are constant; observations and masks are valid; every allowed
    action is accepted; the same seed gives the same game; observations share no memory with the
    environment or with another one; a saved state, if there is one, is JSON and continues the same
    game; pictures have the right shape; drawing changes nothing; and closing twice is allowed. For
    a game of several players, it also requires that seats and teams are constant; every seat in the
    game acts again or ends; and seats do not share observations.

    Args:
        env: A class or function that makes one environment or one game, and is called several
            times; or an environment, of which copies are checked.
        episodes: The least number of episodes of each game.
        seed: Seed of the environment and of the random actions.

    Raises:
        EntityEnvError: The mistake, as an error of a subclass.
    """
    check_count("number of episodes", episodes, error=SettingError)
    create_env: Callable[[], Any] = _copies_of(env) if isinstance(env, Playable) else env
    if inspect.isclass(env):
        check_settings(create_env, {})
    peeked = Peeked(create_env)
    made: list[Playable] = []

    def create() -> Any:
        made.append(peeked() if callable(create_env) else create_env)
        return made[-1]

    def make_rows(create: Callable[[], Any], seed: int, count: int = 1) -> VecEnv:
        if peeked.is_game:
            return SeatRows(create, count * peeked.seats, seed)
        return ListEnv(create, count, seed)

    with make_rows(create, seed) as rows:
        before = made[0].obs_space(), made[0].action_space()
        game = _play(rows, episodes, seed)
        _check_same(game, _play(rows, episodes, seed), "reset with the same seed")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OwnMethodWarning)  # a note reports it
            saves = rows.has_state()
    _check_close(made[0])
    with make_rows(create, seed) as rows:
        check_spaces(before, made[-1])
        _check_same(game, _play(rows, episodes, seed), "made again with the same seed")
    unseen: set[str] = set()
    if _has_own(made[0], "render") or _has_own(made[0], "render_text"):
        with make_rows(create, seed) as rows:
            drawn = _play(rows, episodes, seed, lambda: unseen.update(_check_pictures(made[-1])))
            _check_same(game, drawn, "drawn now and then")
    seen = Seen()
    between = BetweenSeats if peeked.is_game else Between

    def watched(is_damaged: bool) -> list[VecObs]:
        shown: dict[int, list[Observation]] = {}  # of one damaged environment, or of two
        look = None if is_damaged else seen.look

        def make() -> Any:
            return between(create(), is_damaged, look, shown)

        with make_rows(make, seed, 1 if is_damaged else 2) as rows:
            return _play(rows, episodes, seed)

    _check_memory(watched, game)
    if saves:
        for steps in sorted({0, 1, len(game) // 2}):
            check_state(create, steps, seed, make_rows)
    ended = sum(int(obs.done.sum()) for obs in game)
    notes = notes_of(game, seen) + ([] if saves else _notes_of_state(made[0])) + sorted(unseen)
    if peeked.is_game:
        notes += notes_of_seats(game, list(seats_of(made[0])))  # type: ignore[arg-type]
    positions = find_coordinates(before[0], game)
    return Checked(ended, len(game) - 1, tuple(notes), positions)


def _notes_of_state(env: Playable) -> list[str]:
    """Return a note on an environment that has both methods and cannot be saved."""
    # A wrapper has both methods even if its environment has not; a masked game has neither.
    if type(env).get_state is Playable.get_state or not (
        _has_own(env, "get_state") and _has_own(env, "set_state")
    ):
        return []
    return [
        "get_state and set_state do not save the environment, so that a resumed run begins new "
        "episodes: is get_state() a dict, and set_state(state) an Observation?"
    ]


def _copies_of(env: Playable) -> Callable[[], Any]:
    """Return a function that makes copies of ``env``."""
    try:
        untouched = copy.deepcopy(env)
    except Exception as error:
        raise EnvironmentFailedError(
            f"{type(env).__name__} cannot be copied: {shorten(error)}",
            hint="give its class or a function that makes one: check_env(MyEnv)",
        ) from error
    return lambda: copy.deepcopy(untouched)


def _play(
    env: VecEnv, episodes: int, seed: int, look: Callable[[], None] | None = None
) -> list[VecObs]:
    """Return all observations of some episodes; call ``look`` now and then."""
    policy = random_policy(seed)
    game = [env.reset(seed)]
    ended = 0
    most = episodes * _MOST_STEPS
    while (ended < episodes or len(game) <= _LEAST_STEPS) and len(game) <= most:
        if look is not None and len(game) % _LOOK_EVERY == 1:
            look()
        game.append(env.act(policy(game[-1])))
        ended += int(game[-1].done.any())
    return game


def _check_same(left: list[VecObs], right: list[VecObs], how: str) -> None:
    for step, (a, b) in enumerate(zip(left, right, strict=False)):
        part = difference("", pack_obs(a), pack_obs(b))
        if part is not None:
            raise ObservationError(
                f"an environment that is {how} plays another game: {part} differs",
                expected="the same game for the same seed",
                hint="draw all random numbers from self.rng, and reset the whole state in reset",
                where=f"step {step}",
            )


def _check_memory(watched: Callable[[bool], list[VecObs]], game: list[VecObs]) -> None:
    """Play two environments side by side, then one with damaged observations."""
    watched(False)
    wrong = "the environment uses memory that it has returned in an observation"
    try:
        _check_same(game, watched(True), "played beside damaged observations")
    except EntityEnvError as error:
        raise ObservationError(
            wrong, received=error.what, hint=COPIES, where=error.where
        ) from error


def _has_own(env: Playable, method: str) -> bool:
    """Return True if the environment itself, not only its wrapper, has a method."""
    # A wrapper has methods to draw even if its environment has not.
    kind = type(getattr(env, "unwrapped", env))
    return getattr(kind, method) is not getattr(Playable, method)


def _check_pictures(env: Playable) -> list[str]:
    """Check the picture and the text, if there are any; return notes."""
    notes = []
    if _has_own(env, "render"):
        try:
            picture = _call("render", env.render)
        except MissingPackageError as error:
            notes.append(f"render is not checked: {error.what}")
        else:
            _check_picture(picture)
    if _has_own(env, "render_text"):
        text = _call("render_text", env.render_text)
        if not isinstance(text, str):
            raise ObservationError(
                "render_text does not return a string", expected="a string", received=shorten(text)
            )
    return notes


def _check_picture(picture: Any) -> None:
    given = isinstance(picture, np.ndarray) and f"{picture.dtype} {picture.shape}"
    if not given or picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
        raise ObservationError(
            "render does not return a picture",
            expected="an array of uint8 with shape (H, W, 3)",
            received=given or shorten(picture),
        )


def _check_close(env: Playable) -> None:
    """Close an environment that its rows have closed already."""
    _call("a second close", env.close)


def _call(what: str, function: Callable[[], Any]) -> Any:
    try:
        return function()
    except MissingPackageError:
        raise
    except FAILURES as error:
        raise EnvironmentFailedError(f"{what} raised {shorten(error)}") from error


def main(arguments: list[str] | None = None) -> int:
    """Check the environment named on the command line, and return the exit status."""
    parser = environment_parser("entity_env.check", "Check an environment for mistakes.")
    parser.add_argument(
        "--episodes", type=int, default=3, help="least number of episodes in each game"
    )
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)

    def check() -> None:
        create_env = game_from_words(given.env, given.settings)
        checked = check_env(create_env, given.episodes, given.seed)
        print(
            f"{given.env}: no mistakes found in games of {counted(checked.episodes, 'episode')} "
            f"and {counted(checked.steps, 'step')}"
        )
        for note in checked.notes:
            print(f"note: {note}")
        print(checked.positions)

    return run_program(check)


if __name__ == "__main__":
    sys.exit(main())
