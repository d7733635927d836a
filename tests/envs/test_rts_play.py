"""Mini-RTS to look at and to play: pictures, maps, frame skips, rewards, replays."""

from __future__ import annotations

import numpy as np
import pytest
from rts_support import Table, minirts_table, plain, table_of

from entity_env import GlobalCategoricalAction
from envs.rts import minirts
from envs.rts.minirts_rows import MiniRts, MiniRtsDuel
from envs.rts.rules import ATTACK
from envs.rts.view import MapView, draw_map, write_map

IDLE = {"Order": GlobalCategoricalAction(0, "Idle")}


def test_who_has_more_is_ahead():
    table = minirts_table()
    for player in range(2):
        table.remove(*table.units(player, "Worker", "Barracks", "Melee", "Range"))
    table.money[:] = 300, 100
    # Bases are worth 500 each: (800 - 600) / 1400.
    assert table.advantage(0) == pytest.approx(200 / 1400)
    table.first(0, "Base").hp = 250  # half of its 500: (550 - 600) / 1150
    assert table.advantage(0) == pytest.approx(-50 / 1150)
    assert table.advantage(1) == pytest.approx(50 / 1150)


def test_shaping_sums_up_to_what_a_game_begins_with():
    env = MiniRts(opponent="simple", max_tick=500, shaping=2.0, draw=-0.25)
    env.seed(1)
    observation, total = env.reset(), 0.0
    first = plain(minirts.advantage)(table_of(env).w, 0)
    while not observation.done:
        observation = env.act(IDLE)
        total += observation.reward
    assert table_of(env).over == (True, -1)  # nobody has won by tick 500
    # All changes together lead from the first advantage to 0, and nobody's victory is -0.25.
    assert total == pytest.approx(-2.0 * first - 0.25)


def test_seats_of_a_duel_have_their_own_frame_skips():
    duel = MiniRtsDuel(frame_skip=50, opponent_skip=20)
    duel.seed(0)
    told, asked = duel.reset(), []
    for _ in range(7):
        asked.append((table_of(duel).now, [seat for seat in (0, 1) if seat in told]))
        told = duel.act(dict.fromkeys(asked[-1][1], IDLE))
    ticks = [(20, [1]), (40, [1]), (50, [0]), (60, [1]), (80, [1]), (100, [0, 1]), (120, [1])]
    assert asked == ticks


def small_table():
    """Own: a base at (2, 2), a worker at (4, 2); of the enemy a base far away, a melee near it."""
    table = Table()
    own = table.create(0, "Base", 2, 2), table.create(0, "Worker", 4, 2)
    others = table.create(1, "Base", 17, 17), table.create(1, "Melee", 15, 17)
    return table, own, others


def drawn(table, player=None):
    return draw_map(MapView.of_world(table.rules, table.w), player)


def written(table, player, fog):
    return write_map(MapView.of_world(table.rules, table.w), player, fog)


def test_a_picture_shows_fog_units_and_hit_points():
    table, (_, worker), (_, melee) = small_table()
    cell, head = 24, 48

    def at(picture, x, y, dx=0.0, dy=0.0):
        row, column = head + (y + 0.5 + dy) * cell, (x + 0.5 + dx) * cell
        return tuple(picture[int(row), int(column)].tolist())

    seen = drawn(table, player=0)
    assert seen.shape[1:] == (20 * cell, 3)
    assert seen.shape[0] > 20 * cell + head, "a legend stands below"
    # The base sees 5 cells along the axes: (2, 7) is 5 away, (2, 8) is 6; the worker, 3.
    assert at(seen, 2, 7) != at(seen, 2, 8) == at(seen, 12, 12)
    assert at(drawn(table), 2, 8) == at(seen, 2, 7)  # without a player there is no fog
    blue, red = (33, 88, 190), (200, 45, 40)
    assert at(seen, 4, 2, dx=-0.15) == blue
    assert at(drawn(table), 15, 17, dx=-0.25) == red
    assert at(seen, 15, 17, dx=-0.2) == (255, 255, 255)  # out of sight: hollow
    whole = drawn(table)
    melee.hp = 40  # of 100: the right part of its gauge is dark now
    hurt = drawn(table)
    gauge = {"x": 15, "y": 17, "dx": 0.3, "dy": -0.5}
    assert at(whole, **gauge) == (60, 180, 75)
    assert at(hurt, **gauge) == (60, 60, 60)
    assert worker.command == 0
    table.send(0, worker, ATTACK, target=melee)
    table.play()
    ordered = drawn(table)
    assert (ordered != hurt).any(axis=2).sum() > 100  # an arrow across the map


def test_a_map_in_characters():
    table, (_, worker), (base, _) = small_table()
    text = written(table, 0, fog=True)
    lines = text.splitlines()
    # Cell (x, y) stands in line 1 + y, at 2 + 2 * x.
    assert lines[3][6] == "H"
    assert lines[3][10] == "W"
    assert lines[18][36] == "h"  # where the enemy's base is, is known
    assert lines[18][32] == " "  # its melee is not
    assert written(table, 0, fog=False).splitlines()[18][32] == "m"
    assert lines[8][6] == "."  # (2, 7), 5 steps from the base
    assert lines[9][6] == " "
    assert "tick 1, money 200" in text
    assert "Worker    ( 4.0,  2.0)    50 hp  idle" in text
    assert written(table, 1, fog=True).splitlines()[18][36] == "H"
    table.send(0, worker, ATTACK, target=base)
    table.play()
    assert "attack Base" in written(table, 0, fog=True)


def test_the_environment_draws_itself():
    env = MiniRts(max_tick=300)
    env.seed(2)
    env.reset()
    table = table_of(env)
    assert np.array_equal(env.render(), drawn(table, player=0))
    assert env.render_text() == written(table, 0, fog=True)
