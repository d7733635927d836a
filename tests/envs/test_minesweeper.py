"""MineSweeper: the rules by hand, how boards are drawn, saved states, the script, and pictures."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ragged_envs.minesweeper import DEFUSE, MOVES, MineSweeper, MineSweeperRows
from ragged_envs.minesweeper_script import walk_and_defuse
from support.broken import ragged
from support.tiny_envs import assert_same_obs, lists

from entity_env import errors
from entity_env.actions import CategoricalAction, SelectEntityAction
from entity_env.errors import SettingError
from entity_env.observation import Observation
from entity_env.play import play_scripted, random_policy
from entity_env.rows.compiled import random_int

RIGHT, LEFT, UP, DOWN = range(4)


def board(mines, robots, cooldowns=(), **settings):
    return MineSweeper.from_state(mines, robots, cooldowns, **settings)


def play(env, moves, targets=()):
    """Play a step: a move for each robot, and a target for each cannon that is ready."""
    ready = [i for i, left in enumerate(env.fields()["cooldowns"]) if left == 0]
    robots = [("Robot", i) for i in range(len(moves))]
    cannons = [("Orbital Cannon", i) for i in ready]
    return env.act(
        {
            "Move": CategoricalAction(robots, np.array(moves), MOVES),
            "Fire Orbital Cannon": SelectEntityAction(cannons, list(targets)),
        }
    )


def tiles(observation, name):
    return [(int(x), int(y)) for x, y in observation.features[name]]


def end(observation):
    return observation.reward, observation.done, observation.truncated, observation.metrics


LOST, WON = (0.0, True, False, {"win": 0.0}), (1.0, True, False, {"win": 1.0})
GOES_ON = (0.0, False, False, {})


def test_a_ready_cannon_is_asked_and_robots_cannot_leave_the_board():
    # Wider than high: an edge is that of its own axis.
    seen = board([(2, 1)], [(3, 0), (0, 2)], [0, 3], width=4, height=3).observe()
    assert (tiles(seen, "Mine"), tiles(seen, "Robot")) == ([(2, 1)], [(3, 0), (0, 2)])
    assert seen.features["Orbital Cannon"].tolist() == [[0], [3]]
    assert seen.actions["Move"].mask.tolist() == [
        # Right, Left, Up, Down, Defuse
        [False, True, True, False, True],
        [True, False, False, True, True],
    ]
    fire = seen.actions["Fire Orbital Cannon"]
    assert list(fire.actor_ids) == [("Orbital Cannon", 0)]
    assert list(fire.actee_ids) == [("Mine", 0), ("Robot", 0), ("Robot", 1)]


# ---- robots -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("move", "to"), [(RIGHT, (3, 2)), (LEFT, (1, 2)), (UP, (2, 3)), (DOWN, (2, 1))]
)
def test_a_move_goes_one_tile(move, to):
    seen = play(board([(5, 5)], [(2, 2)]), [move])
    assert (tiles(seen, "Robot"), end(seen)) == ([to], GOES_ON)


def test_defusing_reaches_the_own_and_the_four_neighbouring_tiles_only():
    near = [(2, 3), (1, 2), (3, 2), (2, 1)]
    far = [(1, 1), (3, 3), (2, 4), (0, 2)]  # Manhattan distance 2
    seen = play(board(near + far, [(2, 2)]), [DEFUSE])
    assert (tiles(seen, "Mine"), tiles(seen, "Robot")) == (far, [(2, 2)])


def test_a_robot_that_ends_on_a_mine_is_lost_and_the_mine_stays():
    seen = play(board([(3, 2)], [(2, 2), (0, 0)]), [RIGHT, UP])
    assert (tiles(seen, "Mine"), tiles(seen, "Robot"), end(seen)) == ([(3, 2)], [(0, 1)], GOES_ON)
    assert end(play(board([(3, 2)], [(2, 2)]), [RIGHT])) == LOST
    # Robots that share a tile are lost together.
    assert tiles(play(board([(1, 0)], [(0, 0), (2, 0), (4, 4)]), [RIGHT, LEFT, UP]), "Robot") == [
        (4, 5)
    ]


def test_the_last_mine_wins():
    env = board([(3, 2), (5, 5)], [(2, 2), (5, 3)])
    assert end(play(env, [DEFUSE, UP])) == GOES_ON
    assert end(play(env, [LEFT, DEFUSE])) == WON


def test_a_robot_may_step_on_a_mine_that_another_one_defuses_in_the_same_step():
    for robots, moves in (([(2, 2), (4, 2)], [DEFUSE, LEFT]), ([(4, 2), (2, 2)], [LEFT, DEFUSE])):
        seen = play(board([(3, 2)], robots), moves)
        assert (sorted(tiles(seen, "Robot")), end(seen)) == ([(2, 2), (3, 2)], WON)


def test_robots_share_and_swap_tiles():
    seen = play(board([(5, 5)], [(0, 0), (2, 0), (1, 1)]), [RIGHT, LEFT, DOWN])
    assert tiles(seen, "Robot") == [(1, 0)] * 3
    seen = play(board([(5, 5)], [(0, 0), (1, 0)]), [RIGHT, LEFT])
    assert tiles(seen, "Robot") == [(1, 0), (0, 0)]


@given(st.permutations(range(4)), st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_the_order_of_robots_does_not_matter(order, seed):
    rng = np.random.default_rng(seed)
    drawn = [(int(tile) % 4, int(tile) // 4) for tile in rng.permutation(16)[:8]]
    mines, robots = drawn[:4], drawn[4:]
    env = board(mines, robots, width=4, height=4)
    mask = np.array(env.observe().actions["Move"].mask)
    moves = (rng.random(mask.shape) * mask).argmax(1).tolist()
    other = board(mines, [robots[i] for i in order], width=4, height=4)
    seen, also = play(env, moves), play(other, [moves[i] for i in order])
    assert tiles(seen, "Mine") == tiles(also, "Mine")
    assert sorted(tiles(seen, "Robot")) == sorted(tiles(also, "Robot"))
    assert end(seen) == end(also)


# ---- cannons ------------------------------------------------------------------------------------


def test_a_cannon_removes_a_mine_and_waits():
    env = board([(5, 5), (0, 5)], [(0, 0)], [0], cooldown_period=2)
    seen = play(env, [UP], [("Mine", 0)])
    assert (tiles(seen, "Mine"), tiles(seen, "Robot")) == ([(0, 5)], [(0, 1)])
    left = [seen.features["Orbital Cannon"][0, 0]]
    for move in (UP, DOWN):
        left.append(play(env, [move]).features["Orbital Cannon"][0, 0])
    assert left == [2, 1, 0]
    assert end(play(env, [DOWN], [("Mine", 0)])) == WON


@pytest.mark.parametrize(("period", "fired"), [(3, [4, 8, 12]), (0, [*range(1, 13)])])
def test_a_cannon_starts_with_its_full_cooldown_and_fires_every_period_plus_1_steps(period, fired):
    env = MineSweeper(nmines=20, orbital_cannon=True, cooldown_period=period, nrobots=1)
    seen, steps = env.reset(), []
    for step in range(1, 13):
        is_ready = seen.features["Orbital Cannon"].tolist() == [[0]]
        steps += [step] * is_ready
        seen = play(env, [DEFUSE], [("Mine", 0)] * is_ready)
    assert steps == fired


def test_a_robot_that_is_shot_neither_moves_nor_defuses():
    seen = play(board([(1, 0)], [(0, 0), (4, 4)], [0]), [DEFUSE, UP], [("Robot", 0)])
    assert (tiles(seen, "Mine"), tiles(seen, "Robot"), end(seen)) == ([(1, 0)], [(4, 5)], GOES_ON)
    assert end(play(board([(1, 0)], [(0, 0)], [0]), [DEFUSE], [("Robot", 0)])) == LOST


def test_a_robot_may_step_on_the_tile_of_a_mine_that_is_shot():
    seen = play(board([(1, 0), (5, 5)], [(0, 0)], [0]), [RIGHT], [("Mine", 0)])
    assert (tiles(seen, "Mine"), tiles(seen, "Robot")) == ([(5, 5)], [(1, 0)])


def test_a_mine_that_is_shot_and_defused_is_gone_once():
    seen = play(board([(1, 0), (5, 5)], [(0, 0)], [0]), [DEFUSE], [("Mine", 0)])
    assert (tiles(seen, "Mine"), seen.features["Orbital Cannon"].tolist()) == ([(5, 5)], [[5]])


def test_cannons_fire_at_what_all_saw_and_those_with_the_same_target_both_wait():
    env = board([(1, 1), (5, 5)], [(0, 0)], [0, 0, 4], cooldown_period=6)
    seen = play(env, [UP], [("Mine", 1), ("Mine", 1)])
    assert tiles(seen, "Mine") == [(1, 1)]
    assert seen.features["Orbital Cannon"].tolist() == [[6], [6], [3]]
    env = board([(1, 1), (2, 2), (3, 3)], [(0, 0)], [0, 0])
    assert tiles(play(env, [UP], [("Mine", 0), ("Mine", 1)]), "Mine") == [(3, 3)]


def test_no_mines_and_no_robots_in_the_same_step_is_a_win():
    env = board([(5, 5)], [(0, 0)], [0, 0])
    seen = play(env, [DEFUSE], [("Mine", 0), ("Robot", 0)])
    assert (tiles(seen, "Mine"), tiles(seen, "Robot"), end(seen)) == ([], [], WON)


# ---- the end ------------------------------------------------------------------------------------


def test_max_steps_truncates_and_an_end_in_the_last_step_does_not():
    env = board([(5, 5)], [(0, 0)], max_steps=3)
    assert [end(play(env, [DEFUSE])) for _ in range(2)] == [GOES_ON] * 2
    assert end(play(env, [DEFUSE])) == (0.0, True, True, {"win": 0.0})
    for move, expected in ((DEFUSE, WON), (RIGHT, LOST)):
        assert end(play(board([(1, 0)], [(0, 0)], max_steps=1), [move])) == expected


# ---- boards -------------------------------------------------------------------------------------

VARYING = {"width": [4, 6], "height": [3, 5], "nmines": [1, 4], "nrobots": [2, 3]}


def starts(count, **settings):
    """Return the states that games begin with, from compiled rows."""
    rows = MineSweeperRows(count, 0, **settings)
    rows.reset()
    return [saved["env"] for saved in rows.get_state()]


@pytest.mark.compiled
def test_each_episode_draws_its_own_board():
    drawn = np.array([[own[name] for name in VARYING] for own in starts(3600, **VARYING)])
    # Widths, heights 3 each, 1,200 expected, deviation 28; mines 4, 900, 26; robots 2, 1,800, 30.
    for column, span in zip(drawn.T, VARYING.values(), strict=True):
        values, counts = np.unique(column, return_counts=True)
        assert values.tolist() == list(range(span[0], span[1] + 1))
        assert np.abs(counts - 3600 / len(values)).max() < 150
    # Drawn apart: all 3 * 3 * 4 * 2 = 72 combinations, 50 each.
    assert len(np.unique(drawn, axis=0)) == 72


@pytest.mark.compiled
def test_a_small_board_has_at_most_as_many_mines_as_fit():
    crowded = {"width": [2, 4], "height": [2, 4], "nmines": [2, 15], "nrobots": [1, 2]}
    drawn = starts(4000, **crowded)
    room = [(own["nmines"], own["width"] * own["height"] - own["nrobots"]) for own in drawn]
    assert all(2 <= mines <= min(15, most) for mines, most in room)
    assert {mines for mines, most in room if most == 3} == {2, 3}, "2 x 2 with a robot"
    assert any(mines == 15 for mines, _ in room)


@pytest.mark.compiled
def test_every_layout_is_as_likely():
    # Two mines and a robot on 2 x 2 tiles: 4 * 3 * 2 = 24 layouts in order. 48,000 starts: 2,000
    # each, standard deviation sqrt(48,000 * 1/24 * 23/24) = 43.8; 5 of them.
    env = MineSweeperRows(4000, 1, width=2, height=2, nmines=2, nrobots=1)
    counts = {}
    for _ in range(12):
        obs = env.reset()
        mines, robots = (obs.features[name].as_array() for name in ("Mine", "Robot"))
        for layout in np.concatenate([mines.reshape(-1, 4), robots], axis=1).tolist():
            counts[tuple(layout)] = counts.get(tuple(layout), 0) + 1
    assert len(counts) == 24
    assert max(abs(n - 2000) for n in counts.values()) < 219


@pytest.mark.compiled
def test_layouts_of_successive_episodes_are_as_likely():
    # As above for what follows an episode: the tile of the robot on a 5 x 5 board, 20,000 starts.
    env = MineSweeperRows(1000, 2, width=5, height=5, nmines=3, nrobots=1, max_steps=1)
    counts, obs = np.zeros((5, 5), int), env.reset()
    for _ in range(20):
        obs = env.act({"Move": ragged([4] * 1000, [1] * 1000)})
        assert obs.done.all()
        x, y = obs.features["Robot"].as_array().astype(int).T
        np.add.at(counts, (x, y), 1)
    # 800 on each tile, standard deviation sqrt(20,000 * 1/25 * 24/25) = 27.7
    assert np.abs(counts - 800).max() < 139


def test_a_large_range_is_drawn_evenly():
    # 3 * 2**30 of 2**32 numbers: rounding down alone would give 0 modulo 3 half of the time.
    streams = np.array([1], np.uint64)
    drawn = [random_int(streams, 0, 0, 3 * 2**30 - 1) % 3 for _ in range(3000)]
    # 1,000 each, standard deviation 25.8
    assert np.abs(np.bincount(drawn, minlength=3) - 1000).max() < 129


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"width": [6, 4]}, "width"),
        ({"height": [0, 4]}, "height"),
        ({"nmines": [1, 2, 3]}, "nmines"),
        ({"nrobots": [1.0, 2]}, "nrobots"),
        ({"width": "46"}, "width"),
        ({"width": True}, "width"),
        # 2 mines and 3 robots at worst, on 2 x 2 tiles.
        ({"width": [2, 9], "height": 2, "nmines": [2, 15], "nrobots": [1, 3]}, "at least 5 tiles"),
        ({"nmines": 35}, "6 x 6"),
        ({"orbital_cannon": "yes"}, "orbital_cannon"),
        ({"cooldown_period": -1}, "cooldown_period"),
        ({"max_steps": None}, "max_steps"),
        # Too large to count or to hold.
        ({"max_steps": 10**9 + 1}, "max_steps.*\n.*<= 1000000000"),
        ({"orbital_cannon": 1, "cooldown_period": 2**40}, "cooldown_period"),
        ({"height": [5, 1001]}, "height.*\n.*>= 1 and <= 1000,"),
        ({"width": 1000, "height": 1000, "nrobots": 10_001}, "nrobots"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, text):
    with pytest.raises(SettingError, match=text):
        MineSweeper(**settings)


@pytest.mark.compiled
def test_the_largest_settings_can_be_played():
    settings = {"width": 1000, "height": 1000, "nmines": 10_000, "nrobots": [1, 2]}
    settings |= {"orbital_cannon": 1, "cooldown_period": 10**7, "max_steps": 10**9}
    env = MineSweeperRows(1, **settings)
    obs = env.act(random_policy(0)(env.reset()))
    assert obs.features["Orbital Cannon"].as_array().tolist() == [[10**7 - 1]]
    assert not obs.truncated.any()


# ---- saved states -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"mines": [[0, 0]] * 2}, "two mines on one tile"),
        ({"nmines": 3}, "'nmines' out of range"),
        ({"nmines": 0}, "'nmines' out of range"),
        ({"mines": [[4, 0], [1, 1]]}, "off the board"),
        ({"robots": [[0, -1]]}, "'robots' out of range"),
        ({"robots": [[0, 0]]}, "a robot on a mine"),
        ({"width": 5}, "'width' out of range"),
        ({"cooldowns": []}, "damaged"),
        ({"cooldowns": [6]}, "'cooldowns' out of range"),
        ({"steps": 100}, "'steps' out of range"),
        ({"mines": [[0.5, 1], [1, 1]]}, "damaged"),
    ],
)
def test_states_that_do_not_fit_are_refused_and_change_nothing(change, text):
    env = board([(0, 0), (1, 1)], [(2, 2)], [1], width=4, height=4)
    before = env.get_state()
    wrong = json.loads(json.dumps(before))
    wrong["rows"][0]["env"] |= change
    with pytest.raises(errors.StateError, match=text):
        env.set_state(wrong)
    assert env.get_state() == before


# ---- what rows promise --------------------------------------------------------------------------


def everything(obs):
    parts = [*obs.features.values(), *(m.actors for m in obs.action_masks.values())]
    parts += [obs.action_masks["Move"].mask, obs.action_masks["Fire Orbital Cannon"].actees]
    arrays = [*obs.metrics.values(), obs.reward, obs.done, obs.truncated]
    final = "" if obs.final is None else everything(obs.final)
    return f"{[lists(part) for part in parts]} {[a.tolist() for a in arrays]} {final}"


@pytest.mark.compiled
def test_observations_stay_as_they_were():
    env = MineSweeperRows(16, 3, **VARYING, orbital_cannon=2, cooldown_period=2, max_steps=15)
    policy, obs = random_policy(0), env.reset()
    kept, texts = [], []
    for _ in range(40):
        kept.append(obs)
        texts.append(everything(obs))
        obs = env.act(policy(obs))
    assert [everything(obs) for obs in kept] == texts
    assert len(set(texts)) > 30


@pytest.mark.compiled
def test_buffers_belong_to_whoever_got_them():
    env = MineSweeperRows(3, 1, max_steps=1)  # no cannons: those buffers are empty
    obs = env.reset()
    for _ in range(5):
        obs = env.act({"Move": ragged([4] * 6, [2] * 3)})
        assert obs.truncated.tolist() == [True] * 3, "nobody has won or lost on the way"
        spoil(obs.final)
        obs.final.done[:] = obs.final.truncated[:] = False
    spoil(obs)
    assert_same_obs(env.reset(seed=1), MineSweeperRows(3, 1, max_steps=1).reset())


def spoil(obs):
    """Change all buffers of an observation."""
    masks = obs.action_masks
    shots = masks["Fire Orbital Cannon"]
    for buffer in (*obs.features.values(), *masks["Move"].__dict__.values(), shots.actors):
        assert buffer.size0() == 3
        buffer.extend(buffer.clone())


def test_actions_may_be_left_out_or_come_in_any_order_and_as_views():
    env = MineSweeperRows(3, 1, nrobots=1)
    env.reset()
    state, moves = env.get_state(), ragged([4] * 3, [1] * 3)
    without = env.act({"Move": moves})
    env.set_state(state)
    assert_same_obs(env.act({"Move": moves, "Fire Orbital Cannon": ragged([], [0] * 3)}), without)
    env = MineSweeperRows(3, 1, nrobots=1, orbital_cannon=1, cooldown_period=0)
    good = random_policy(0)(env.reset())
    state = env.get_state()
    expected = env.act(good)
    for form in (
        lambda actions: dict(reversed(actions.items())),
        lambda actions: {name: chosen[[0, 1, 2], :, :] for name, chosen in actions.items()},
    ):
        env.set_state(state)
        assert_same_obs(env.act(form(good)), expected)


def test_acting_before_reset_and_after_close_is_refused():
    env = MineSweeperRows(2)
    for call in (lambda: env.act({}), env.get_state):
        with pytest.raises(errors.ResetNeededError, match=r"call reset\(\) first"):
            call()
    env.reset()
    with pytest.raises(errors.StateError, match="1 row"):
        env.set_state(env.get_state()[:1])
    env.close()
    env.close()
    with pytest.raises(errors.ClosedError):
        env.reset()


# ---- players ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cannons", "most"), [(0, 9.2), (3, 8.0)])
def test_the_script_wins_every_game_and_with_cannons_sooner(cannons, most):
    played = play_scripted(lambda: MineSweeper(orbital_cannon=cannons), walk_and_defuse, 40, seed=0)
    assert played["win"].mean() == 1.0
    assert played["episodic_length"].mean() < most


def test_the_script_defuses_beside_a_mine_and_shoots_other_mines():
    actions = walk_and_defuse(board([(1, 0), (5, 5)], [(0, 0), (5, 3)], [0, 1, 0, 0]).observe())
    assert actions["Move"].labels == ["Defuse Mines", "Up"]
    assert actions["Fire Orbital Cannon"] == SelectEntityAction(
        [("Orbital Cannon", i) for i in (0, 2, 3)], [("Mine", 0), ("Mine", 1), ("Mine", 0)]
    )


def test_the_script_answers_frames_without_mines_or_robots():
    last = play(board([(5, 5)], [(0, 0)], [0, 0]), [DEFUSE], [("Mine", 0), ("Robot", 0)])
    actions = walk_and_defuse(last)
    assert (list(actions["Move"].actors), actions["Move"].indices.tolist()) == ([], [])
    assert list(actions["Fire Orbital Cannon"].actors) == []
    frame = Observation(features={"Robot": [[0, 0]]}, ids={"Robot": ["a"]}, actions=last.actions)
    assert walk_and_defuse(frame)["Move"].labels == ["Defuse Mines"]


# ---- pictures -----------------------------------------------------------------------------------


@pytest.mark.parametrize("tile", [8, 31])
def test_a_picture_has_one_square_for_each_tile_and_a_bar_for_cannons(tile):
    env = board([(0, 1)], [(2, 0)], width=5, height=3)
    assert (env.render(tile=tile).shape, env.render().dtype) == ((3 * tile, 5 * tile, 3), np.uint8)
    env = board([(0, 1)], [(2, 0)], [0] * 4, width=5, height=3)
    assert env.render(tile=tile).shape == (4 * tile, 5 * tile, 3)
    with pytest.raises(SettingError, match="tile"):
        env.render(tile=3)
    with pytest.raises(TypeError, match="tyle"):
        env.render(tyle=30)


def test_up_is_up_in_pictures():
    picture = board([(0, 1)], [(2, 0)], width=3, height=2).render(tile=10)
    dark = picture.min(axis=2) < 80  # the mine's body; the board is lighter
    assert dark[:10, :10].any()  # y = 1 is the upper row
    assert not dark[10:, :20].any()


def test_robots_that_share_a_tile_and_cooldowns_are_drawn():
    pictures = [board([(0, 1)], [(0, 0)] * robots).render() for robots in (1, 2)]
    assert (pictures[0] != pictures[1]).any()
    bars = [board([(0, 1)], [(0, 0)], [left]).render()[:24] for left in (0, 2, 5)]
    assert all((a != b).any() for a, b in [bars[:2], bars[1:]])


def test_rows_draw_each_their_own_board():
    rows = MineSweeperRows(5, 2, **VARYING)
    rows.reset()
    assert len({picture.shape for picture in rows.render(tile=9)}) > 1


def test_text_shows_ids_and_coordinates():
    env = board(
        [(0, 2), (2, 0)], [(1, 1), (1, 1)], [0, 3], width=3, height=3, max_steps=50, steps=4
    )
    assert env.render_text().splitlines() == [
        "step 4 of 50, 2 mines, 2 robots, cannon 0 ready, cannon 1 ready in 3",
        "2   M0    .    .",
        "1    . R0R1    .",
        "0    .    .   M1",
        "     0    1    2",
    ]
