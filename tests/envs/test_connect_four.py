"""Connect four: positions by hand, saved states, and minimax."""

from __future__ import annotations

import json

import numpy as np
import pytest
from ragged_envs.connect_four import ConnectFour
from ragged_envs.connect_four_script import Minimax, minimax_depth_4, move_values
from ragged_envs.poker import BalancedPlayer, KuhnPoker, LeducPoker, play_by_strength

from entity_env import MaskedEnvironment, SeatRows, SelectEntityAction, errors
from entity_env.play import play_scripted
from entity_env.scripted_agent import ScriptedAgent


def drop(game, *columns):
    """Both players' discs, in turns; what the last one led to."""
    for x in columns:
        seat = game.seats()[game.fields()["turn"]]
        move = SelectEntityAction([("Player", 0)], [("Column", x)])
        told = game.act({seat: {"Drop": move}})
    return told


def started():
    game = ConnectFour()
    game.reset()
    return game


@pytest.mark.parametrize(
    ("columns", "winner"),
    [
        ([0, 0, 1, 1, 2, 2, 3], 0),  # the lowest row
        ([0, 1, 0, 1, 0, 1, 0], 0),  # a column
        ([6, 0, 0, 1, 1, 2, 2, 3], 1),  # the other's lowest row
        # first: (0, 0), (1, 1), (2, 2), (3, 3); the second player's discs lie under them
        ([0, 1, 1, 2, 2, 3, 2, 3, 3, 6, 3], 0),
        # the mirror image falls to the right
        ([6, 5, 5, 4, 4, 3, 4, 3, 3, 0, 3], 0),
    ],
)
def test_four_in_a_line_win(columns, winner):
    game = started()
    told = drop(game, *columns[:-1])
    assert all(not seen.done for seen in told.values())
    told = drop(game, columns[-1])
    names = game.seats()
    assert told[names[winner]].reward == 1.0
    assert told[names[1 - winner]].reward == -1.0
    assert told[names[winner]].metrics == {"win": 1.0}
    assert told[names[1 - winner]].metrics == {"win": 0.0}
    assert all(seen.done and not seen.actions for seen in told.values())
    with pytest.raises(errors.ResetNeededError):
        game.act({names[winner]: {}})


def test_a_full_board_is_a_draw():
    # Columns 0 to 5 in pairs, colours swapped half way up, so that no line is longer than three.
    game = started()
    order = [0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1]  # column 0: 0 0 1 1 0 0, column 1: 1 1 0 0 1 1
    columns = [x + 2 * pair for pair in range(3) for x in order] + [6] * 6
    told = drop(game, *columns)
    assert {seen.reward for seen in told.values()} == {0.0}
    assert [seen.metrics for seen in told.values()] == [{"win": 0.5}] * 2
    assert game.fields()["discs"] == 42


def test_what_a_player_sees_is_its_own_side():
    game = started()
    seen = drop(game, 3, 3, 2, 4, 1)["second"]  # first has 3, 2, 1; second (3, 1) and 4
    # Columns from -3 on: height, six discs (1: own), then lines at the lowest free space: own,
    # other, and above. At column 0 the first player would have four, the second one. Above, at
    # (0, 1), the second has no neighbour: one; the first has (1, 0) on a diagonal: two.
    assert seen.features["Column"][0].tolist() == [-3, 0, *[0] * 6, 1, 4, 1, 2]
    # Column 3 holds the first's and the second's disc. On top of it, at (3, 2), the second would
    # have two in the column, the first no neighbour.
    assert seen.features["Column"][3][:8].tolist() == [0, 2, 2, 1, 0, 0, 0, 0]
    assert seen.features["Column"][3][8:10].tolist() == [2, 1]
    assert np.asarray(seen.actions["Drop"].mask).tolist() == [[True] * 7]


def test_a_full_column_is_closed():
    game = started()
    seen = drop(game, 0, 0, 0, 0, 0, 0)["first"]
    assert seen.actions["Drop"].actee_ids == [("Column", x) for x in range(1, 7)]
    assert seen.actions["Drop"].mask.all()
    assert seen.features["Column"][0][8:].tolist() == [0, 0, 0, 0]
    with pytest.raises(errors.ActionError, match="cannot be selected"):
        drop(game, 0)


def test_bad_states_are_refused():
    game = started()
    drop(game, 3, 3, 4)
    assert game.render_text().splitlines()[-1] == ". . . X X . ."
    state = json.loads(json.dumps(game.get_state()))
    saved = state["rows"][0]["env"]
    for change, words in (
        ({"board": [[0, 0, 0, 1, 0, 0], *saved["board"][1:]]}, "discs that float"),
        ({"discs": 5}, "another number of discs"),
        ({"turn": 0}, "the wrong player's turn"),
        ({"turn": 2}, "turn"),
    ):
        wrong = {"rows": [{**state["rows"][0], "env": {**saved, **change}}, state["rows"][1]]}
        with pytest.raises(errors.StateError, match=words):
            game.set_state(wrong)


LINES = [
    [(x + i * dx, y + i * dy) for i in range(4)]
    for x in range(7)
    for y in range(6)
    for dx, dy in ((1, 0), (0, 1), (1, 1), (1, -1))
    if x + 3 * dx < 7 and 0 <= y + 3 * dy < 6
]


def open_lines(discs, own):
    """Return the sum of k * k over the lines with k discs of ``own`` and none of the other."""
    lines = [[int(discs[space]) for space in line] for line in LINES]
    return sum(line.count(own) ** 2 for line in lines if 3 - own not in line)


def brute(discs, depth):
    """Return the value of each move to who moves, without pruning and on plain lists."""
    values = []
    for x in range(7):
        free = np.flatnonzero(discs[x] == 0)
        if not len(free):
            values.append(-2000)
            continue
        after = discs.copy()
        after[x, free[0]] = 1
        if any(all(after[space] == 1 for space in line) for line in LINES):
            values.append(999)
        elif depth == 1:
            values.append(open_lines(after, 1) - open_lines(after, 2))
        elif (after != 0).all():
            values.append(0)
        else:
            best = max(brute(np.array([0, 2, 1])[after], depth - 1))
            values.append(-best + (best > 900) - (best < -900))
    return values


def test_minimax_finds_what_a_search_without_pruning_finds():
    assert len(LINES) == 69
    rng = np.random.default_rng(0)
    for _ in range(1):
        discs = np.zeros((7, 6), np.int64)
        for turn in range(14):
            x = rng.choice(np.flatnonzero((discs == 0).any(axis=1)))
            discs[x, np.flatnonzero(discs[x] == 0)[0]] = 1 + turn % 2
        assert move_values(discs, 3).tolist() == brute(discs, 3)


def test_minimax_wins_and_blocks():
    discs = np.zeros((7, 6), np.int64)
    discs[:3, 0], discs[:2, 1] = 1, 2
    values = move_values(discs, 4)
    assert values[3] == 999
    assert np.abs(np.delete(values, 3)).max() < 100
    # The other's turn: all but blocking loses with the next move.
    values = move_values(np.array([0, 2, 1])[discs], 4)
    assert abs(values[3]) < 100
    assert np.delete(values, 3).tolist() == [-998] * 6
    game = started()
    told = drop(game, 0, 0, 1, 1, 2)
    assert minimax_depth_4(told["second"])["Drop"].actees == [("Column", 3)]
    with pytest.raises(errors.EntityEnvError, match="depth"):
        Minimax(0)


def test_minimax_counts_open_lines():
    """In the middle of an empty board a disc lies in 3 + 4 lines and the column's one: 7."""
    assert move_values(np.zeros((7, 6), np.int64), 1).tolist() == [3, 4, 5, 7, 5, 4, 3]


def test_minimax_beats_random_players():
    wins = play_scripted(lambda: MaskedEnvironment(ConnectFour), Minimax(3), 20, 0)["win"]
    assert wins.mean() > 0.9


def test_scripts_play_rows_whose_ids_are_types_and_places():
    """Opponents of self-play see rows, where the player is called ("Player", 0), not "me"."""
    for game, script, action in (
        (ConnectFour, Minimax(2), "Drop"),
        (KuhnPoker, BalancedPlayer(), "Bet"),
        (LeducPoker, play_by_strength, "Bet"),
    ):
        rows = SeatRows(game, 4)
        agent = ScriptedAgent(script, rows.obs_space(), rows.action_space())
        obs = rows.reset()
        for _ in range(6):
            chosen = agent.act_rows(obs)
            assert chosen[action].size0() == len(obs.rows)
            obs = rows.act(chosen)
