import pytest
from game_support import assert_bad_states_are_refused, choose, plain
from ragged_envs.floor_is_lava import DIRECTIONS, FloorIsLava, to_high_ground

from entity_env import Position
from entity_env.errors import SettingError
from entity_env.play import play_scripted

N, NE, E, SE, S, SW, W, NW = range(8)


def go(direction):
    return choose("Move", ["Player"], [direction], DIRECTIONS)


def game(player, high_ground, lava=(), **settings):
    """A game at its start."""
    env = FloorIsLava(**settings)
    state = {"player": player, "high_ground": high_ground, "lava": lava, "steps": 0}
    return env, env.set_state(state)


def test_the_observation_holds_all_positions():
    _, observation = game((100, -7), (101, -8), [(99, -7), (100, -6)])
    assert plain(observation) == {
        "features": {
            "Player": [[100, -7]],
            "HighGround": [[101, -8]],
            "Lava": [[99, -7], [100, -6]],
        },
        "global_features": [],
        "masks": {"Move": None},
        "reward": 0.0,
        "done": False,
        "truncated": False,
        "metrics": {},
    }
    assert observation.ids == {"Player": ("Player",)}
    for entity in FloorIsLava().obs_space().entities.values():
        assert entity.position == Position("x", "y")


@pytest.mark.parametrize(
    ("direction", "to"),
    [
        (N, (5, 6)),
        (NE, (6, 6)),
        (E, (6, 5)),
        (SE, (6, 4)),
        (S, (5, 4)),
        (SW, (4, 4)),
        (W, (4, 5)),
        (NW, (4, 6)),
    ],
)
def test_each_direction_leads_to_its_tile(direction, to):
    env, _ = game((5, 5), to)
    observation = env.act(go(direction))
    assert env.player == to
    assert (observation.reward, observation.done, observation.truncated) == (1.0, True, False)
    assert observation.metrics == {"win": 1.0}
    # The player is on the tile that was high ground.
    assert observation.features["HighGround"] == observation.features["Player"] == [to]


def test_lava_and_empty_tiles_pay_nothing():
    for direction in (S, W):  # lava in the south, nothing in the west
        env, _ = game((0, 0), (0, 1), [(0, -1)])
        observation = env.act(go(direction))
        assert (observation.reward, observation.done) == (0.0, True)
        assert observation.metrics == {"win": 0.0}


def test_a_reset_lays_out_what_the_settings_say():
    env = FloorIsLava(world=3, tiles=(2, 4))
    env.seed(1)
    counts, players, high_grounds = set(), set(), set()
    for _ in range(600):
        features = env.reset().features
        (player,), (high_ground,) = features["Player"], features["HighGround"]
        around = [high_ground, *features["Lava"]]
        assert len(set(around)) == len(around)
        for x, y in around:
            assert max(abs(x - player[0]), abs(y - player[1])) == 1
        counts.add(len(around))
        players.add(player)
        high_grounds.add((high_ground[0] - player[0], high_ground[1] - player[1]))
    assert counts == {2, 3, 4}
    # 49 places: one of them is missed by 600 draws with probability 49 * (48/49)**600 = 2e-4.
    assert players == {(x, y) for x in range(-3, 4) for y in range(-3, 4)}
    assert len(high_grounds) == 8


def test_the_scripted_player_always_wins():
    assert play_scripted(FloorIsLava, to_high_ground, 200, seed=1)["episodic_reward"].min() == 1.0


def test_the_text_shows_the_tiles_around_the_player():
    env, _ = game((7, 8), (8, 9), [(6, 8)])
    assert env.render_text().splitlines() == [
        "player at 7, 8",
        ". . . . .",
        ". . . H .",
        ". L P . .",
        ". . . . .",
        ". . . . .",
    ]


@pytest.mark.parametrize(
    "settings",
    [
        {"world": -1},
        {"world": 2.5},
        {"world": 10**7},
        {"tiles": 0},
        {"tiles": 9},
        {"tiles": (3, 2)},
        {"tiles": "all"},
    ],
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(SettingError, match=next(iter(settings))):
        FloorIsLava(**settings)


def test_bad_states_are_refused():
    env, _ = game((0, 0), (0, 1), [(1, 0)], tiles=(2, 3))
    assert_bad_states_are_refused(
        env,
        [
            ({"player": [0]}, "not a state"),
            ({"player": [0.5, 0]}, "not a state"),
            ({"lava": [[1, 0, 0]]}, "not a state"),
            ({"steps": 2}, "step"),
            ({"steps": -1}, "step"),
            ({"lava": [[0, 1]]}, "two things"),
            ({"lava": [[0, 0]]}, "not around"),
            ({"lava": [[2, 0]]}, "not around"),
            ({"lava": []}, "number of tiles"),
            ({"lava": [[1, 0], [1, 1], [-1, 0]]}, "number of tiles"),
        ],
    )
    assert env.set_state({**env.get_state(), "steps": 1, "player": [0, 1]}).done
