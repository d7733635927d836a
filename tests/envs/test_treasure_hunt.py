import pytest
from game_support import assert_bad_states_are_refused, plain
from ragged_envs.treasure_hunt import MOVES, TreasureHunt
from ragged_envs.treasure_hunt_script import go_straight, go_to_nearest

from entity_env import GlobalCategoricalAction
from entity_env.errors import ActionError, SettingError
from entity_env.player.episodes import play_scripted

RIGHT, LEFT, UP, DOWN = range(4)


def go(move):
    return {"Move": GlobalCategoricalAction(move, MOVES[move])}


def game(hunter, traps, treasures, steps=0, found=(0, 0), **settings):
    env = TreasureHunt(traps=len(traps), treasures=len(treasures), **settings)
    env.seed(1)
    counts = {"treasures": found[0], "traps": found[1]}
    state = {"hunter": hunter, "traps": traps, "treasures": treasures, "found": counts}
    return env, env.set_state({**state, "steps": steps})


def test_traps_and_treasures_are_relative_to_the_hunter():
    _, observation = game((3, -2), [(3, -1)], [(0, 0), (10, -10)])
    assert plain(observation) == {
        "features": {"Trap": [[0, 1]], "Treasure": [[-3, 2], [7, -8]]},
        "global_features": [3, -2],
        "masks": {"Move": [True] * 4},
        "reward": 0.0,
        "done": False,
        "truncated": False,
        "metrics": {},
    }


def test_or_absolute():
    _, observation = game((3, -2), [(3, -1)], [(0, 0)], relative=False)
    assert plain(observation)["features"] == {"Trap": [[3, -1]], "Treasure": [[0, 0]]}
    assert list(observation.global_features) == [3, -2]


@pytest.mark.parametrize(
    ("move", "to"), [(RIGHT, (1, 0)), (LEFT, (-1, 0)), (UP, (0, 1)), (DOWN, (0, -1))]
)
def test_a_move_goes_one_tile(move, to):
    env, _ = game((0, 0), [(5, 5)], [(-5, 5)])
    observation = env.act(go(move))
    assert env.hunter == to
    assert (observation.reward, observation.done) == (0.0, False)


@pytest.mark.parametrize(
    ("place", "allowed"),
    [
        ((10, 0), [False, True, True, True]),
        ((-10, 0), [True, False, True, True]),
        ((0, 10), [True, True, False, True]),
        ((0, -10), [True, True, True, False]),
        ((-10, -10), [True, False, True, False]),
    ],
)
def test_nobody_leaves_the_world(place, allowed):
    env, observation = game(place, [], [(1, 1)])
    assert list(observation.actions["Move"].mask) == allowed
    for move in range(4):
        if not allowed[move]:
            with pytest.raises(ActionError, match=MOVES[move]):
                env.act(go(move))
    assert env.hunter == place


def test_a_treasure_pays_and_appears_elsewhere():
    env, _ = game((0, 0), [(5, 5)], [(9, 9), (1, 0)])
    observation = env.act(go(RIGHT))
    assert (observation.reward, observation.done) == (1.0, False)
    assert env.treasures[0] == (9, 9)
    assert env.treasures[1] not in [(1, 0), (9, 9), (5, 5)]
    assert env.traps == [(5, 5)]
    assert env.found == {"treasures": 1, "traps": 0}


def test_a_new_treasure_may_be_anywhere_else():
    env, _ = game((0, 0), [(-1, 0)], [(1, 0), (2, 0)])
    state = env.get_state()
    seen = set()
    for _ in range(5000):
        env.set_state(state)
        env.act(go(RIGHT))
        seen.add(env.treasures[0])
    # 441 tiles but hunter, trap and the other treasure; missing one of 438 in 5,000 draws has a
    # chance of 438 * (437/438)**5000 = 0.005, and the seed is fixed.
    everything = {(x, y) for x in range(-10, 11) for y in range(-10, 11)}
    assert seen == everything - {(1, 0), (-1, 0), (2, 0)}


def test_a_trap_costs_a_half_and_stays():
    env, _ = game((0, 0), [(0, 1)], [(9, 9)])
    for times in (1, 2):
        observation = env.act(go(UP))
        assert (observation.reward, observation.done) == (-0.5, False)
        assert env.found == {"treasures": 0, "traps": times}
        env.act(go(DOWN))
    assert env.traps == [(0, 1)]


def test_a_trap_may_end_the_episode():
    env, _ = game((0, 0), [(0, 1)], [(9, 9)], trap_ends=True, found=(2, 0))
    observation = env.act(go(UP))
    assert (observation.reward, observation.done, observation.truncated) == (-0.5, True, False)
    assert observation.metrics == {"treasures": 2, "traps": 1}


def test_the_limit_truncates():
    env, _ = game((0, 0), [(0, 1)], [(2, 0)], steps=98, found=(3, 1))
    assert not env.act(go(RIGHT)).done
    last = env.act(go(RIGHT))
    assert (last.reward, last.done, last.truncated) == (1.0, True, True)
    assert last.metrics == {"treasures": 4, "traps": 1}


def test_a_start_puts_everything_on_tiles_of_its_own():
    env = TreasureHunt(relative=False)
    env.seed(1)
    seen = set()
    for _ in range(300):
        observation = env.reset()
        hunter = tuple(observation.global_features)
        traps, treasures = observation.features["Trap"], observation.features["Treasure"]
        assert (len(traps), len(treasures)) == (5, 5)
        assert len({hunter, *traps, *treasures}) == 11
        seen |= {hunter, *traps, *treasures}
    assert seen == {(x, y) for x in range(-10, 11) for y in range(-10, 11)}


def test_the_scripted_player_finds_treasures_and_no_traps():
    played = play_scripted(TreasureHunt, go_to_nearest, 15, seed=1)
    assert played["traps"].sum() == 0
    assert played["treasures"].mean() > 12


@pytest.mark.parametrize("treasure", [(2, 0), (-2, 0), (0, 2), (0, -2)])
def test_whoever_goes_straight_steps_into_traps(treasure):
    trap = treasure[0] // 2, treasure[1] // 2
    env, observation = game((0, 0), [trap], [(9, 9), treasure])
    rewards = []
    for _ in range(2):
        observation = env.act(go_straight(observation))
        rewards.append(observation.reward)
    assert rewards == [-0.5, 1.0]


@pytest.mark.parametrize("treasure", [(2, 0), (-2, 0), (0, 2), (0, -2)])
def test_the_scripted_player_goes_around_a_trap(treasure):
    trap = treasure[0] // 2, treasure[1] // 2
    env, observation = game((0, 0), [trap], [treasure])
    rewards = []
    for _ in range(4):
        observation = env.act(go_to_nearest(observation))
        rewards.append(observation.reward)
    assert rewards == [0.0, 0.0, 0.0, 1.0]


def test_the_scripted_player_takes_a_trap_where_there_is_no_other_way():
    _, observation = game((10, 10), [(9, 10), (10, 9)], [(0, 0)])
    assert go_to_nearest(observation)["Move"].label in ("Left", "Down")


def test_the_text_shows_the_world():
    env, _ = game((-10, 10), [(10, 10)], [(-9, 10)], steps=3, found=(2, 1))
    lines = env.render_text().splitlines()
    assert lines[0] == "step 3 of 100, 2 treasures and 1 traps so far"
    assert lines[1] == "H $" + " ." * 18 + " ^"
    assert lines[21] == " ".join("." * 21)


@pytest.mark.parametrize(
    "settings",
    [
        {"traps": -1},
        {"traps": 101},
        {"treasures": 0},
        {"treasures": 1.0},
        {"trap_ends": 1},
        {"max_steps": 0},
        {"relative": "no"},
    ],
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(SettingError, match=next(iter(settings))):
        TreasureHunt(**settings)


def test_bad_states_are_refused():
    env, _ = game((0, 0), [(0, 1)], [(2, 0), (3, 0)])
    assert_bad_states_are_refused(
        env,
        [
            ({"hunter": [0]}, "not a state"),
            ({"hunter": [0, 0.5]}, "not a state"),
            ({"found": {"treasures": 1}}, "not a state"),
            ({"traps": []}, "number of traps"),
            ({"treasures": [[2, 0]]}, "number of treasures"),
            ({"traps": [[2, 0]]}, "two things"),
            ({"treasures": [[2, 0], [2, 0]]}, "two things"),
            ({"hunter": [2, 0]}, "on a treasure"),
            ({"hunter": [11, 0]}, "outside"),
            ({"treasures": [[2, 0], [3, -11]]}, "outside"),
            ({"steps": -1}, "negative"),
            ({"found": {"treasures": -1, "traps": 0}}, "negative"),
        ],
    )
