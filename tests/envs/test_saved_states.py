"""States of the registered games: they come back from JSON, and damaged ones do no harm.

``python tests/envs/test_saved_states.py NAME SEED CHANGES`` tries more damages, in compiled code.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from mmo_support import SMALL_WORLD

from entity_env.checking.check_tools import difference, pack_obs
from entity_env.errors import EntityEnvError, StateError
from entity_env.play import random_policy
from entity_env.registry import find, has_seats, is_rows, path_of, registered
from entity_env.rows.compiled import CompiledRows
from entity_env.rows.list_env import ListEnv
from entity_env.seats.seat_rows import SeatRows

SMALL: dict[str, dict[str, Any]] = {
    "job_shop": {"jobs": 6, "machines": 4, "arrivals": True, "breakdowns": 0.1, "setups": 0.2},
    "mmo": SMALL_WORLD,
    "photosynthesis": {"rounds": 2, "players": 2},
    "vehicle_routing": {"vehicles": 3, "windows": True, "requests": 0.5},
    "warehouse": {"ticks": 200},
}
"""Settings of games that are long, or that have more to save with them."""
GAMES = [name for name in registered() if path_of(name).startswith("ragged_envs.")]
COMPILED = [
    name
    for name in GAMES
    if isinstance(find(path_of(name)), type) and issubclass(find(path_of(name)), CompiledRows)
]


def make_rows(name: str, seed: int = 0, compile_it: bool = False) -> Any:
    """Return the rows of one game; compiled ones are run by Python unless ``compile_it``."""
    factory, settings = find(path_of(name)), SMALL.get(name, {})
    if not is_rows(factory):
        rows = SeatRows if has_seats(factory) else ListEnv
        seats = len(factory(**settings).seats()) if has_seats(factory) else 1
        return rows(lambda: factory(**settings), seats, seed)
    made = factory(None, seed, **settings)
    if not compile_it:
        made.interpret()
    return made


@pytest.mark.parametrize("name", GAMES)
def test_a_state_goes_through_json_at_each_step(name):
    played, restored, policy = make_rows(name), make_rows(name, 1), random_policy(0)
    obs = played.reset()
    if not played.has_state():
        pytest.skip(f"{name} saves no state")
    for step in range(10 if ".rts." in path_of(name) else 150):
        back = restored.set_state(json.loads(json.dumps(played.get_state(), allow_nan=False)))
        assert [*back.rows] == [*obs.rows]
        chosen = policy(obs)
        obs, also = played.act(chosen), restored.act(chosen)
        part = difference("", pack_obs(obs), pack_obs(also))
        assert part is None, f"{part} differs after step {step}"
        if obs.done.any():
            break


# ---- damaged states ------------------------------------------------------------------------------

EXTREMES = (-1, 0, 1, 5, -(2**31), 2**31 - 1, 2**40, -0.5, 1e300, None, "1", [], [[0]], True)
EXTREMES += (float("nan"), float("inf"), {}, [0] * 9)


def damaged(rng: np.random.Generator, value: Any) -> Any:
    """Return a value of a saved state with one number of it changed, or replaced as a whole."""
    if isinstance(value, list) and value and rng.random() < 0.95:
        at = int(rng.integers(len(value)))
        return [*value[:at], damaged(rng, value[at]), *value[at + 1 :]]
    if isinstance(value, dict) and value and rng.random() < 0.95:
        at = list(value)[int(rng.integers(len(value)))]
        return {**value, at: damaged(rng, value[at])}
    if isinstance(value, int | float) and rng.random() < 0.6:
        return value + int(rng.choice([-1, 1, 2, -2, int(rng.integers(-40, 40))]))
    return EXTREMES[int(rng.integers(len(EXTREMES)))]


class Checked(np.ndarray):
    """An array that takes no negative index, which Python would count from the end."""

    def __getitem__(self, key: Any) -> Any:
        refuse_negative(key)
        return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        refuse_negative(key)
        super().__setitem__(key, value)


def refuse_negative(key: Any) -> None:
    for one in key if isinstance(key, tuple) else (key,):
        if isinstance(one, int | np.integer) and one < 0:
            raise IndexError(f"index {one}")


def harms(name: str, seed: int, changes: int, compile_it: bool = False) -> Iterator[str]:
    """Damage states of a game, play on with those that are accepted, and yield what goes wrong."""
    rng, policy = np.random.default_rng(seed), random_policy(seed)
    rows = make_rows(name, seed, compile_it)
    for part in getattr(rows, "_parts", ()) if not compile_it else ():
        part._state = (tuple(own.view(Checked) for own in part._state[0]), *part._state[1:])
    state, obs = None, rows.reset()
    for _ in range(changes):
        if state is None or rng.random() < 0.1:
            for _ in range(
                int(rng.integers(30 if compile_it or ".rts." not in path_of(name) else 4))
            ):
                obs = rows.reset() if obs.done.any() else rows.act(policy(obs))
            obs = rows.reset() if obs.done.any() else obs
            state = in_lists(rows, json.loads(json.dumps(rows.get_state())))
        place = int(rng.integers(len(state)))
        row = {**state[place], "env": damaged(rng, state[place]["env"])}
        wrong = [*state[:place], row, *state[place + 1 :]]
        changed = difference_of(state[place]["env"], row["env"])
        if compile_it:
            print(name, changed, flush=True)
        try:
            obs = rows.set_state(wrong)
            for _ in range(5):
                obs = rows.reset() if obs.done.any() else rows.act(policy(obs))
        except StateError:
            pass
        except EntityEnvError as error:
            cause = error.__cause__
            if cause is not None and not isinstance(cause, EntityEnvError):
                yield f"{changed}: {type(cause).__name__}: {cause}"
        except Exception as error:
            yield f"{changed}: {type(error).__name__}: {error}"
        obs = rows.set_state(state)


def in_lists(rows: Any, state: list[Any]) -> list[Any]:
    """Return a state of compiled rows with lists in place of packed arrays, to damage numbers."""
    if not isinstance(rows, CompiledRows):
        return state
    games = {
        row: rows.save_game(row // rows.num_seats) for row, own in enumerate(state) if own["env"]
    }
    return [{**own, "env": games.get(row)} for row, own in enumerate(state)]


def difference_of(old: Any, new: Any) -> str:
    """Return where two saved states differ."""
    if type(old) is type(new) and isinstance(old, list | dict) and len(old) == len(new):
        for at in old if isinstance(old, dict) else range(len(old)):
            if json.dumps(old[at]) != json.dumps(new[at]):
                return f"[{at}]{difference_of(old[at], new[at])}"
    return f": {json.dumps(old)[:80]} became {json.dumps(new)[:80]}"


@pytest.mark.parametrize("name", COMPILED)
def test_damaged_states_are_refused_or_played(name):
    changes = 6 if ".rts." in path_of(name) else 60  # a step of those takes a while in Python
    assert list(harms(name, seed=1, changes=changes)) == []


@pytest.mark.parametrize("name", COMPILED)
def test_whole_numbers_of_a_state_are_bounded(name):
    rows = make_rows(name)
    loose = [
        field
        for field, own in rows._game.state.items()
        if np.dtype(own.dtype).kind in "iu"
        and not own.fixed
        and (own.least is None or own.most is None)
    ]
    assert not loose


if __name__ == "__main__":
    name, seed, changes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    for harm in harms(name, seed, changes, compile_it=len(sys.argv) < 5):
        print("HARM", harm, flush=True)
