"""Pursuit: catching, leaving and coming back by hand, what is seen, and the script."""

from __future__ import annotations

import json

import numpy as np
import pytest
from game_support import choose, plain
from ragged_envs.pursuit import MOVES, Pursuit, chase_or_flee

from entity_env import errors
from entity_env.errors import SettingError

STAY, RIGHT, LEFT, UP, DOWN = range(5)


def chase(hunters, runners, walls=(), steps=0, **settings):
    game = Pursuit(len(hunters), len(runners), walls=len(walls), **settings)
    game.seed(1)
    state = {
        "walls": list(walls),
        "places": [*hunters, *runners],
        "back_at": [0] * len(runners),
        "catches": [0.0] * len(hunters),
        "steps": steps,
    }
    return game, game.set_state(state)


def go(game, *moves):
    """Move all who are in the game, hunters first."""
    inside = [seat for seat, place in zip(game.seats(), game.places, strict=True) if place]
    actions = {
        seat: choose("Move", ["me"], [move], MOVES)
        for seat, move in zip(inside, moves, strict=True)
    }
    return game.act(actions)


def test_a_seat_sees_what_is_near():
    _, told = chase([(2, 2), (5, 2)], [(4, 5), (0, 0)], [(2, 3), (8, 8)], sight=3)
    assert plain(told["hunter 0"])["features"] == {
        "Me": [[2, 2, 1, 50]],
        "Hunter": [[3, 0]],
        "Runner": [[2, 3], [-2, -2]],
        "Wall": [[0, 1]],
    }
    # Up of (2, 2) is a wall.
    assert told["hunter 0"].actions["Move"].mask == [(True, True, True, False, True)]
    assert plain(told["runner 1"])["features"] == {
        "Me": [[0, 0, 0, 50]],
        "Hunter": [[2, 2]],
        "Runner": [],
        "Wall": [[2, 3]],
    }
    assert told["runner 1"].actions["Move"].mask == [(True, True, False, True, False)]


def test_a_runner_is_caught_and_the_catch_is_shared():
    game, _ = chase([(2, 2), (4, 2), (8, 8)], [(3, 2), (0, 5)])
    told = go(game, RIGHT, LEFT, STAY, STAY, STAY)
    assert [told[f"hunter {i}"].reward for i in range(3)] == [0.5, 0.5, 0.0]
    assert (told["runner 0"].reward, told["runner 0"].done) == (-1.0, True)
    assert told["runner 0"].metrics == {"win": 0.0}
    assert (told["runner 1"].reward, told["runner 1"].done) == (0.0, False)
    assert game.catches == [0.5, 0.5, 0.0]


def test_who_changes_places_is_caught_and_who_passes_by_is_not():
    game, _ = chase([(2, 2)], [(3, 2)])
    assert go(game, RIGHT, LEFT)["runner 0"].done
    game, _ = chase([(2, 2)], [(3, 2)])
    assert not go(game, RIGHT, RIGHT)["runner 0"].done


def test_a_runner_comes_back_out_of_sight():
    game, _ = chase([(0, 0)], [(1, 0), (8, 8)], rejoin=2)
    told = go(game, RIGHT, STAY, STAY)
    assert set(told) == {"hunter 0", "runner 0", "runner 1"}
    assert game.places[1] is None
    told = go(game, STAY, STAY)  # one step out
    assert set(told) == {"hunter 0", "runner 1"}
    told = go(game, STAY, STAY)
    assert set(told) == {"hunter 0", "runner 0", "runner 1"}
    assert not told["runner 0"].done
    assert told["runner 0"].actions
    x, y = game.places[1]
    assert max(abs(x - 1), abs(y - 0)) > 3  # the hunter is at (1, 0)


def test_the_time_is_up():
    game, _ = chase([(0, 0), (5, 5)], [(1, 0), (8, 8)], steps=49)
    told = go(game, RIGHT, STAY, STAY, STAY)
    assert all(seen.done for seen in told.values())
    assert told["hunter 0"].metrics == {"catches": 1.0, "team_catches": 1.0}
    assert told["hunter 1"].metrics == {"catches": 0.0, "team_catches": 1.0}
    assert told["runner 0"].metrics == {"win": 0.0}
    assert told["runner 1"].metrics == {"win": 1.0}
    with pytest.raises(errors.ResetNeededError):
        game.act({})


def test_layouts_are_connected_and_games_end():
    game = Pursuit()
    game.seed(5)
    for _ in range(5):
        told, ends = game.reset(), 0
        assert len(game.walls) == 12
        assert len(set(game.places) | game.walls) == 18
        while not game.is_done:
            told = game.act({s: chase_or_flee(seen) for s, seen in told.items() if not seen.done})
            ends += sum(seen.done for seen in told.values())
        caught = sum(game.catches)
        assert ends >= 3 + caught  # hunters, and each runner that was caught
        assert caught == pytest.approx(round(caught))


def catches(hunter, runner, games):
    total = 0.0
    for seed in range(games):
        game = Pursuit()
        game.seed(seed)
        told = game.reset()
        while not game.is_done:
            plays = {seat: hunter if "hunter" in seat else runner for seat in told}
            told = game.act({s: plays[s](seen) for s, seen in told.items() if not seen.done})
        total += sum(game.catches)
    return total / games


def test_the_script_hunts_and_flees_better_than_random_players():
    rng = np.random.default_rng(0)

    def wander(seen):
        free = np.flatnonzero(seen.actions["Move"].mask[0])
        return choose("Move", ["me"], [rng.choice(free)], MOVES)

    alike = catches(wander, wander, 10)
    assert catches(chase_or_flee, wander, 10) > 2 * alike
    assert catches(wander, chase_or_flee, 10) < alike / 2


def test_bad_states_are_refused():
    game, _ = chase([(0, 0)], [(1, 0), (8, 8)], [(4, 4)])
    go(game, RIGHT, STAY, STAY)
    state = json.loads(json.dumps(game.get_state()))
    assert game.render_text().splitlines()[0] == "step 1 of 50, caught 1"
    for change, words in (
        ({"places": [[0, 0]]}, "another number"),
        ({"places": [[0, 9], None, None]}, "off the board"),
        ({"places": [[4, 4], None, None]}, "in a wall"),
        ({"places": [None, None, [0, 0]]}, "a hunter who is out"),
        ({"steps": 50}, "is over"),
        ({"catches": [500.0]}, "catches"),
        ({"steps": -1}, "a step"),
        ({"walls": 3}, "not a state"),
    ):
        with pytest.raises(errors.StateError, match=words):
            game.set_state({**state, **change})
    with pytest.raises(errors.ResetNeededError):
        Pursuit().get_state()


def test_bad_moves_and_settings():
    game, _ = chase([(0, 0)], [(5, 5)])
    with pytest.raises(errors.ActionError):
        go(game, LEFT, STAY)
    with pytest.raises(errors.ActionError):
        game.act({"hunter 0": choose("Move", ["me"], [STAY], MOVES)})
    for bad, words in (
        ({"hunters": 0}, "hunters"),
        ({"sight": 0}, "sight"),
        ({"walls": 40}, "are too many here"),
    ):
        with pytest.raises(SettingError, match=words):
            Pursuit(**bad)


def test_hunters_and_runners_are_teams():
    assert {team: len(seats) for team, seats in Pursuit(4, 2).teams().items()} == {
        "hunters": 4,
        "runners": 2,
    }
