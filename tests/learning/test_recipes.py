"""Games are learned with their own recipes.

The thresholds are those that each game is known for; what plays without learning gets far less.
"""

from __future__ import annotations

import pytest
from learning_support import played_by

from ppo_trainer import recipe
from ppo_trainer.environments import make_factory
from ppo_trainer.evaluation.comparison import evaluate
from ppo_trainer.imitate import imitate
from ppo_trainer.record import record_agent
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.results import read_metrics

pytestmark = pytest.mark.learning


def test_the_arm_that_pays_is_found(tmp_path):
    # Random play gets 0.2.
    assert played_by(tmp_path, "multi_armed_bandit")[0] > 0.97


def test_two_bits_are_put_together(tmp_path):
    # Who sees one bit, or neither, gets 0.5.
    assert played_by(tmp_path, "xor")[0] == 1.0


def test_entity_types_that_come_and_go_are_told_apart(tmp_path):
    # Always the same answer gets 0.5, and who sees only the feature of an object gets 0.75.
    assert played_by(tmp_path, "not_hotdog")[0] > 0.99


@pytest.mark.parametrize("value_net", [True, False], ids=["separate", "shared"])
def test_the_policy_throws_paper_and_the_value_knows_what_that_is_worth(tmp_path, value_net):
    # Paper gets 1.0, scissors 0.6, rock 0.4. The mean of 1,000 games has a deviation of 0.03, but
    # the throws do not depend on the player: one seed gives the same opponents to all.
    mean, result = played_by(tmp_path, "rock_paper_scissors", f"value_net={str(value_net).lower()}")
    assert mean == pytest.approx(1.0, abs=0.05)
    last = read_metrics(RunFolder(result.run))[-1]
    assert last["value/explained_variance"] > 0.95


def test_whoever_sees_the_opponent_beats_it(tmp_path):
    assert played_by(tmp_path, "rock_paper_scissors", "env.cheat=true")[0] > 1.95


def test_the_high_ground_is_found_by_a_network_that_sees_offsets(tmp_path):
    # Random play gets 0.125. Nothing says so but the positions that the space declares.
    assert played_by(tmp_path, "floor_is_lava")[0] > 0.97


def test_but_not_by_one_that_reads_coordinates_as_numbers(tmp_path):
    # Neighbours differ by a thousandth of the deviation of a coordinate.
    assert played_by(tmp_path, "floor_is_lava", "net.relative_position={kind: none}")[0] < 0.4


def test_a_ship_learns_to_thrust_and_to_brake(tmp_path):
    # Random play ends farther away than it starts; 0 is the return of whoever stays where it is.
    assert played_by(tmp_path, "move_to_origin")[0] > 0.9


def test_a_pole_is_balanced(tmp_path):
    # Random play gets 22; 500 is the most, and 475 is what counts as solved.
    assert played_by(tmp_path, "cartpole", episodes=50)[0] > 475


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_what_was_shown_is_remembered(kind, tmp_path):
    played = played_by(tmp_path, "repeat_after_k", f"net.memory={kind}", "total_timesteps=60_000")
    assert played[0] > 0.95


def test_without_a_memory_it_is_guessed(tmp_path):
    played = played_by(tmp_path, "repeat_after_k", "net.memory=none", "total_timesteps=60_000")
    # 1 / 4; of 1,000 games the standard deviation is 0.014.
    assert played[0] < 0.32


def test_a_script_is_cloned_from_two_hundred_games(tmp_path):
    # Random play wins 5%; nothing here is learned by reinforcement.
    config = recipe("minesweeper", f"run_dir={tmp_path}", "eval.episodes=0")
    recorded = record_agent(config, tmp_path / "games", episodes=200, rows=8)
    result = imitate([recorded.path], config)
    played = evaluate(result.net, make_factory(config), config, 500, greedy=False)
    assert played.mean("win") > 0.9
