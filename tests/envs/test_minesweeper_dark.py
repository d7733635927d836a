import pytest
from ragged_envs.minesweeper import MOVES, MineSweeper
from ragged_envs.minesweeper_dark import MineSweeperDark

from entity_env import CategoricalAction, make
from entity_env.errors import SettingError
from entity_env.player.episodes import play_episodes, random_policy


def test_only_mines_near_a_robot_are_seen_and_keep_their_ids():
    # Distances from the robots at (0, 0) and (5, 5): 3, 2, 2, 4 (1 + 3), 1.
    mines = [(1, 2), (1, 1), (5, 3), (4, 2), (4, 5)]
    env = MineSweeperDark.from_state(mines, [(0, 0), (5, 5)])
    observation = env.observe()
    assert observation.features["Mine"] == [(1, 1), (5, 3), (4, 5)]
    assert observation.ids["Mine"] == [("Mine", 1), ("Mine", 2), ("Mine", 4)]
    assert observation.features["Robot"] == [(0, 0), (5, 5)]


def test_nobody_sees_anything_when_all_robots_are_lost():
    env = MineSweeperDark.from_state([(1, 0)], [(0, 0)])
    last = env.act({"Move": CategoricalAction([("Robot", 0)], [0], MOVES)})
    assert (last.done, last.features["Mine"], last.metrics) == (True, [], {"win": 0.0})


def test_whoever_sees_everything_plays_the_game_itself():
    played = [
        play_episodes(kind, random_policy(1), 100, seed=1)
        for kind in (MineSweeper, lambda: MineSweeperDark(sight=10))
    ]
    assert played[0]["episodic_length"].tolist() == played[1]["episodic_length"].tolist()
    assert played[0]["win"].tolist() == played[1]["win"].tolist()


def test_settings():
    for wrong in ({"sight": 0}, {"sight": 1.5}, {"widht": 3}):
        with pytest.raises(SettingError):
            make("minesweeper_dark", **wrong)
