"""The compiled MineSweeper is the readable one, move for move; only its boards are others."""

from __future__ import annotations

import json

import numpy as np
import pytest
from ragged_envs.minesweeper import MineSweeper
from ragged_envs.minesweeper_native import MineSweeperVec
from support.broken import ragged
from support.tiny_envs import assert_same_obs, lists

from entity_env import ListEnv, RaggedBufferI64, errors
from entity_env.errors import SettingError
from entity_env.player.episodes import random_policy
from entity_env.rows.compiled import random_int
from entity_env.wrappers import VecTimeLimit

pytestmark = pytest.mark.compiled

GAMES = {
    "plain": {},
    "a cannon": {"orbital_cannon": True, "cooldown_period": 2},
    "three cannons, always ready": {
        "nmines": 9,
        "nrobots": 4,
        "orbital_cannon": 3,
        "cooldown_period": 0,
    },
    "two cannons, crowded": {
        "width": 4,
        "height": 4,
        "nmines": 10,
        "nrobots": 6,
        "orbital_cannon": 2,
        "cooldown_period": 1,
    },
    "short": {"max_steps": 4, "orbital_cannon": 1, "cooldown_period": 3},
    "one step": {"width": 3, "height": 3, "nmines": 1, "nrobots": 2, "max_steps": 1},
    "a corridor": {"width": 9, "height": 1, "nmines": 2, "nrobots": 3},
    "a shaft": {"width": 1, "height": 8, "nmines": 3, "nrobots": 1},
    "a full board": {"width": 3, "height": 2, "nmines": 3, "nrobots": 3},
    "any board": {
        "width": [2, 9],
        "height": (3, 7),
        "nmines": [1, 15],
        "nrobots": [1, 5],
        "orbital_cannon": 2,
        "cooldown_period": 2,
        "max_steps": 15,
    },
}


class Told(MineSweeper):
    """Starts its episodes from states that are handed to it."""

    start = None

    def reset(self):
        return self.set_state(self.start)


def twins(settings, rows, seed):
    """Both kinds of rows, at the same boards; the readable ones and what makes them start."""
    native = MineSweeperVec(rows, seed, **settings)
    envs = [Told(**settings) for _ in range(rows)]
    made = iter(envs)
    listed = ListEnv(lambda: next(made), rows)
    obs = native.reset()
    hand_over(native, envs)
    assert_same_obs(obs, listed.reset())
    return native, listed, envs


def hand_over(native, envs):
    for env, saved in zip(envs, native.get_state(), strict=True):
        env.start = saved["env"]


def assert_same_states(native, listed):
    for saved, other in zip(native.get_state(), listed.get_state(), strict=True):
        assert {**saved, "rng": None} == {**other, "rng": None}


def likely_to_win(obs, rng):
    """Robots defuse every third time, so that games are won, lost and cut off."""
    actions = random_policy(int(rng.integers(2**32)))(obs)
    moves = actions["Move"].as_array()
    moves[rng.random(len(moves)) < 1 / 3] = 4
    actions["Move"] = RaggedBufferI64.from_flattened(moves, actions["Move"].size1())
    return actions


@pytest.mark.parametrize("name", GAMES)
def test_both_play_the_same_game(name):
    # 16 rows x 250 steps: 4,000 moves in each setting, 40,000 in all
    native, listed, envs = twins(GAMES[name], 16, seed=3)
    rng = np.random.default_rng(0)
    obs, ends = native.reset(), set()
    hand_over(native, envs)
    assert_same_obs(obs, listed.reset())
    for _ in range(250):
        actions = likely_to_win(obs, rng)
        obs = native.act(actions)
        hand_over(native, envs)
        assert_same_obs(obs, listed.act(actions))
        ends |= set(zip(obs.reward[obs.done], obs.truncated[obs.done], strict=True))
        assert (obs.final is None) == (not obs.truncated.any())
    assert_same_states(native, listed)
    wins_and_losses = {(1.0, False), (0.0, False)}
    limited = "max_steps" in GAMES[name]
    assert ends >= (wins_and_losses | {(0.0, True)} if limited else wins_and_losses), ends


def test_the_games_above_have_every_kind_of_frame():
    """Without this the comparison could pass for want of anything to compare."""
    seen = {}
    for name in ("two cannons, crowded", "any board", "short"):
        env, rng = MineSweeperVec(16, 3, **GAMES[name]), np.random.default_rng(0)
        obs = env.reset()
        for _ in range(100):
            obs = env.act(likely_to_win(obs, rng))
            ready = obs.action_masks["Fire Orbital Cannon"].actors.size1()
            for what, here in (
                ("the cannons of some rows are ready", (ready == 2).any() and not ready.all()),
                ("no cannon of any row is ready", not ready.any()),
                ("several rows are cut off", obs.final is not None and len(obs.final) > 1),
                ("a final frame with cannons", has_cannons(obs.final)),
                ("nobody's episode ended", not obs.metrics),
            ):
                seen[what] = seen.get(what, False) or bool(here)
    assert all(seen.values()), seen


def has_cannons(final):
    return final is not None and final.features["Orbital Cannon"].items() > 0


@pytest.mark.parametrize("seed", range(4))
def test_both_go_on_the_same_from_any_state(seed):
    """Also from those that no game leads to by itself, such as cannons that are not in step."""
    rng = np.random.default_rng(seed)
    settings = {**GAMES["any board"], "orbital_cannon": 3}
    native, listed, envs = twins(settings, 12, seed)
    mixed = 0
    for _ in range(25):
        start = native.get_state()
        for row in start:
            row["env"] = anything(rng, settings)
            row["episode"] = {"reward": float(rng.integers(3)), "length": int(rng.integers(50))}
            row["episode"]["metrics"] = {}
        random = [row["rng"] for row in listed.get_state()]
        obs = listed.set_state([{**row, "rng": r} for row, r in zip(start, random, strict=True)])
        assert_same_obs(native.set_state(start), obs)
        for _ in range(8):
            ready = obs.action_masks["Fire Orbital Cannon"].actors.size1()
            mixed += int(((ready > 0) & (ready < 3)).sum())
            actions = likely_to_win(obs, rng)
            obs = native.act(actions)
            hand_over(native, envs)
            assert_same_obs(obs, listed.act(actions))
            assert_same_states(native, listed)
    assert mixed > 100


def anything(rng, settings):
    width, height = (int(rng.integers(*settings[n]) + 1) for n in ("width", "height"))
    mines = int(rng.integers(1, min(15, width * height - 1) + 1))
    free = [[int(t) % width, int(t) // width] for t in rng.permutation(width * height)]
    robots = [free[i] for i in rng.integers(mines, len(free), size=rng.integers(1, 6))]
    return {
        "mines": free[:mines],
        "robots": robots,  # several may share a tile
        "cooldowns": rng.integers(0, settings["cooldown_period"] + 1, size=3).tolist(),
        "steps": int(rng.integers(settings["max_steps"])),
        "size": [width, height],
    }


# ---- random numbers -----------------------------------------------------------------------------


def run(env, steps, seed=None):
    policy = random_policy(0)
    seen = [env.reset(seed)]
    for _ in range(steps):
        seen.append(env.act(policy(seen[-1])))
    return seen


def test_every_layout_is_as_likely():
    # Two mines and a robot on 2 x 2 tiles: 4 * 3 * 2 = 24 layouts in order. 48,000 starts: 2,000
    # each, standard deviation sqrt(48,000 * 1/24 * 23/24) = 43.8; 5 of them.
    env = MineSweeperVec(4000, 1, width=2, height=2, nmines=2, nrobots=1)
    counts = {}
    for _ in range(12):
        obs = env.reset()
        mines, robots = (obs.features[name].as_array() for name in ("Mine", "Robot"))
        for layout in np.concatenate([mines.reshape(-1, 4), robots], axis=1).tolist():
            counts[tuple(layout)] = counts.get(tuple(layout), 0) + 1
    assert len(counts) == 24
    assert max(abs(n - 2000) for n in counts.values()) < 219


def test_a_large_range_is_drawn_evenly():
    # 3 * 2**30 of 2**32 numbers: rounding down alone would give 0 modulo 3 half of the time.
    streams = np.array([1], np.uint64)
    drawn = [random_int(streams, 0, 0, 3 * 2**30 - 1) % 3 for _ in range(3000)]
    # 1,000 each, standard deviation 25.8
    assert np.abs(np.bincount(drawn, minlength=3) - 1000).max() < 129


def test_layouts_of_successive_episodes_are_as_likely():
    # As above for what follows an episode: the tile of the robot on a 5 x 5 board, 20,000 starts.
    env = MineSweeperVec(1000, 2, width=5, height=5, nmines=3, nrobots=1, max_steps=1)
    counts, obs = np.zeros((5, 5), int), env.reset()
    for _ in range(20):
        obs = env.act({"Move": ragged([4] * 1000, [1] * 1000)})
        assert obs.done.all()
        x, y = obs.features["Robot"].as_array().astype(int).T
        np.add.at(counts, (x, y), 1)
    # 800 on each tile, standard deviation sqrt(20,000 * 1/25 * 24/25) = 27.7
    assert np.abs(counts - 800).max() < 139


# ---- boards that vary ---------------------------------------------------------------------------

VARYING = {"width": [4, 6], "height": [3, 5], "nmines": [1, 4], "nrobots": [2, 3]}


def shapes_of_python(settings, count):
    env = MineSweeper(**settings)
    env.seed(0)
    for _ in range(count):
        env.reset()
        yield env.width, env.height, len(env.mines), len(env.robots)


def shapes_of_native(settings, count):
    env = MineSweeperVec(count, 0, **settings)
    env.reset()
    for saved in env.get_state():
        own = saved["env"]
        yield *own.get("size", (0, 0)), len(own["mines"]), len(own["robots"])


@pytest.mark.parametrize("shapes", [shapes_of_python, shapes_of_native])
def test_each_episode_draws_its_own_board(shapes):
    drawn = np.array(list(shapes(VARYING, 3600)))
    # Widths, heights 3 each, 1,200 expected, deviation 28; mines 4, 900, 26; robots 2, 1,800, 30.
    for column, span in zip(drawn.T, VARYING.values(), strict=True):
        values, counts = np.unique(column, return_counts=True)
        assert values.tolist() == list(range(span[0], span[1] + 1))
        assert np.abs(counts - 3600 / len(values)).max() < 150
    # Drawn apart: all 3 * 3 * 4 * 2 = 72 combinations, 50 each.
    assert len(np.unique(drawn, axis=0)) == 72


@pytest.mark.parametrize("shapes", [shapes_of_python, shapes_of_native])
def test_a_small_board_has_at_most_as_many_mines_as_fit(shapes):
    crowded = {"width": [2, 4], "height": [2, 4], "nmines": [2, 15], "nrobots": [1, 2]}
    drawn = list(shapes(crowded, 4000))
    assert {robots for *_, robots in drawn} == {1, 2}
    room = [(mines, w * h - robots) for w, h, mines, robots in drawn]
    assert all(2 <= mines <= min(15, most) for mines, most in room)
    assert any(mines == most == 3 for mines, most in room), "2 x 2 with a robot"
    assert {mines for mines, most in room if most == 3} == {2, 3}
    assert any(mines == 15 for mines, _ in room)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"width": [6, 4]}, "width"),
        ({"height": [0, 4]}, "height"),
        ({"nmines": [1, 2, 3]}, "nmines"),
        ({"nrobots": [1]}, "nrobots"),
        ({"nrobots": [1.0, 2]}, "nrobots"),
        ({"nmines": (True, 3)}, "nmines"),
        ({"width": "46"}, "width"),
        ({"max_steps": [1, 2]}, "max_steps"),
        # 2 mines and 3 robots at worst, on 2 x 2 tiles.
        ({"width": [2, 9], "height": 2, "nmines": [2, 15], "nrobots": [1, 3]}, "at least 5 tiles"),
        ({"width": 0}, "width"),
        ({"width": 6.0}, "width"),
        ({"width": True}, "width"),
        ({"width": 2, "height": 3}, "at least 7 tiles"),
        ({"nmines": 35}, "6 x 6"),
        ({"nmines": "5"}, "nmines"),
        ({"nrobots": False}, "nrobots"),
        ({"orbital_cannon": -1}, "orbital_cannon"),
        ({"orbital_cannon": "yes"}, "orbital_cannon"),
        ({"orbital_cannon": None}, "orbital_cannon"),
        ({"cooldown_period": -1}, "cooldown_period"),
        ({"cooldown_period": 2.5}, "cooldown_period"),
        ({"max_steps": 0}, "max_steps"),
        ({"max_steps": None}, "max_steps"),
        # Too large to count or to hold.
        ({"max_steps": 2**70}, "max_steps.*\n.*<= 1000000000"),
        ({"max_steps": 10**9 + 1}, "max_steps"),
        ({"orbital_cannon": 1, "cooldown_period": 2**40}, "cooldown_period"),
        ({"width": 100_000, "height": 100_000}, "width"),
        ({"height": [5, 1001]}, "height.*\n.*>= 1 and <= 1000,"),
        ({"nmines": [1, 2**40]}, "nmines"),
        ({"width": 1000, "height": 1000, "nrobots": 10_001}, "nrobots"),
        ({"orbital_cannon": 2**70}, "orbital_cannon"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, text):
    with pytest.raises(SettingError, match=text) as caught:
        MineSweeper(**settings)
    assert isinstance(caught.value, ValueError)
    with pytest.raises(SettingError) as again:
        MineSweeperVec(2, **settings)
    assert str(again.value) == str(caught.value)


def test_the_largest_settings_can_be_played():
    settings = {"width": 1000, "height": 1000, "nmines": 10_000, "nrobots": [1, 2]}
    settings |= {"orbital_cannon": 1, "cooldown_period": 10**7, "max_steps": 10**9}
    for env in (MineSweeperVec(1, **settings), ListEnv(lambda: MineSweeper(**settings), 1)):
        obs = env.reset()
        obs = env.act(random_policy(0)(obs))
        assert obs.features["Orbital Cannon"].as_array().tolist() == [[10**7 - 1]]
        assert not obs.truncated.any()


def test_the_size_is_part_of_the_state_where_it_varies():
    env = MineSweeper(**VARYING)
    env.reset()
    saved = json.loads(json.dumps(env.get_state()))
    other = MineSweeper(**VARYING)
    other.set_state(saved)
    assert (other.width, other.height) == (env.width, env.height) == tuple(saved["size"])
    for size, text in (([7, 3], "another size"), (None, "not a state"), ([4], "not a state")):
        with pytest.raises(errors.StateError, match=text):
            other.set_state({**saved, "size": size})


# ---- what every VecEnv promises -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "change", "error", "text"),
    [
        ("rng", 3, errors.StateError, "damaged"),
        ("rng", {"state": -1}, errors.StateError, "damaged"),
        ("episode", None, errors.StateError, "damaged"),
        ("episode", np.int64(3), errors.StateError, "damaged"),
        ("episode", {"length": 2**31 - 1}, errors.StateError, "an episode of 2147483647 steps"),
        ("episode", {"length": float("inf")}, errors.StateError, "damaged"),
        ("episode", {"metrics": 5}, errors.StateError, "damaged"),
        ("env", {"mines": []}, errors.ObservationError, "done"),
        ("env", {"steps": 100}, errors.ObservationError, "done"),
    ],
)
def test_states_that_do_not_fit_are_refused(part, change, error, text):
    env = MineSweeperVec(2)
    env.reset()
    before, wrong = env.get_state(), env.get_state()
    wrong[1][part] = {**wrong[1][part], **change} if isinstance(change, dict) else change
    with pytest.raises(error, match=text) as caught:
        env.set_state(wrong)
    assert caught.value.where.startswith("environment 1")
    assert env.get_state() == before, "nothing has changed"
    with pytest.raises(errors.ResetNeededError):
        env.act({})


def test_observations_stay_as_they_were():
    env = MineSweeperVec(16, 3, **GAMES["any board"])
    policy, obs = random_policy(0), env.reset()
    kept, texts = [], []
    for _ in range(40):
        kept.append(obs)
        texts.append(everything(obs))
        obs = env.act(policy(obs))
    assert [everything(obs) for obs in kept] == texts
    assert len(set(texts)) > 30


def test_a_buffer_belongs_to_whoever_got_it():
    env = MineSweeperVec(3, 1)  # no cannons: those buffers are empty
    obs = env.reset()
    fire = obs.action_masks["Fire Orbital Cannon"]
    for mine in (obs.features["Mine"], fire.actors, fire.actees, obs.features["Orbital Cannon"]):
        mine.extend(mine.clone())
    assert (fire.actors.size0(), fire.actees.size0()) == (6, 6)
    again = MineSweeperVec(3, 1)
    assert_same_obs(env.reset(seed=1), again.reset())


def test_final_observations_belong_to_whoever_got_them():
    env = MineSweeperVec(3, 1, max_steps=1)  # no cannons, and the same rows cut off in each step
    policy, obs = random_policy(0), env.reset()
    for _ in range(5):
        obs = env.act(policy(obs))
        assert obs.truncated.tolist() == [True] * 3, "nobody has won or lost on the way"
        final, masks = obs.final, obs.final.action_masks
        buffers = [*final.features.values(), masks["Move"].actors, masks["Move"].mask]
        shots = masks["Fire Orbital Cannon"]
        assert [b.size0() for b in (*buffers, shots.actors, shots.actees)] == [3] * 7
        assert (final.done.tolist(), final.truncated.tolist()) == ([True] * 3, [True] * 3)
        assert final.reward.tolist() == [0.0] * 3
        for mine in (*buffers, shots.actors, shots.actees):
            mine.extend(mine.clone())
        final.done[:] = final.truncated[:] = False
        final.reward[:] = 7


def everything(obs):
    parts = [*obs.features.values(), *(m.actors for m in obs.action_masks.values())]
    parts += [obs.action_masks["Move"].mask, obs.action_masks["Fire Orbital Cannon"].actees]
    arrays = [*obs.metrics.values(), obs.reward, obs.done, obs.truncated]
    final = "" if obs.final is None else everything(obs.final)
    return f"{[lists(part) for part in parts]} {[a.tolist() for a in arrays]} {final}"


def test_an_action_without_actors_may_be_left_out_or_be_empty():
    env = MineSweeperVec(3, 1, nrobots=1)
    env.reset()
    state, moves = env.get_state(), ragged([4] * 3, [1] * 3)
    with_none = env.act({"Move": moves})
    for empty in (ragged([], [0] * 3), RaggedBufferI64.from_flattened(np.zeros((0, 7), int), Z3)):
        env.set_state(state)
        assert_same_obs(env.act({"Move": moves, "Fire Orbital Cannon": empty}), with_none)


Z3 = np.zeros(3, np.int64)


def test_actions_may_come_in_any_order_and_as_views():
    env = MineSweeperVec(3, 1, nrobots=1, orbital_cannon=1, cooldown_period=0)
    obs = env.reset()
    state, good = env.get_state(), random_policy(0)(obs)
    expected = env.act(good)
    for form in (
        lambda actions: dict(reversed(actions.items())),
        lambda actions: {name: chosen[[0, 1, 2], :, :] for name, chosen in actions.items()},
    ):
        obs = env.set_state(state)
        assert list(env._checked_actions(form(good), obs)) == list(env.action_space())
        assert_same_obs(env.act(form(good)), expected)


def test_acting_before_reset_and_after_close_is_refused():
    env = MineSweeperVec(2)
    with pytest.raises(errors.ResetNeededError):
        env.act({})
    with pytest.raises(errors.ResetNeededError, match=r"call reset\(\) first"):
        env.get_state()
    env.reset()
    with pytest.raises(errors.StateError, match="1 row"):
        env.set_state(env.get_state()[:1])
    env.close()
    env.close()
    with pytest.raises(errors.ClosedError):
        env.reset()


def test_there_is_no_environment_to_put_a_wrapper_around():
    rows = MineSweeperVec(2)
    before = rows.reset()
    with pytest.raises(
        errors.SettingError, match=r"(?s)MineSweeperVec.*ListEnv\(MineSweeper, num_envs\)"
    ):
        VecTimeLimit(rows, 20)
    rows.act(random_policy(0)(before))  # no reset is needed: nothing has changed


def test_pictures_are_those_of_the_readable_game():
    native, listed, _ = twins(GAMES["any board"], 5, seed=2)
    for a, b in zip(native.render(tile=9), listed.render(tile=9), strict=True):
        np.testing.assert_array_equal(a, b)
    assert len({picture.shape for picture in native.render()}) > 1
