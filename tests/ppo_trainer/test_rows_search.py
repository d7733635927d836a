"""Search over compiled rows: it finds what lies steps ahead, and leaves the rows as they are."""

from dataclasses import replace

import numpy as np
import pytest
from ragged_envs.connect_four import ConnectFourRows
from ragged_envs.industry.job_shop import JobShopRows
from support.tiny_envs import Farm
from support.trainer_runs import SMALL_NET, small_config

from entity_env import (
    Entity,
    GlobalCategoricalAction,
    GlobalCategoricalActionSpace,
    ListEnv,
    ObsSpace,
)
from entity_env.agent import Decision
from entity_env.errors import SettingError
from entity_env.recording import EpisodeDataset
from entity_env.rows.compiled import Actors, CompiledGame, CompiledRows, Entities, Field
from entity_env.rows.single_game import CompiledEnvironment
from ppo_trainer import train
from ppo_trainer.evaluate import evaluate_run
from ppo_trainer.players.rows_search import RowsSearch
from ppo_trainer.players.search_choices import choices_of
from ppo_trainer.record import record_run

# Three steps from the middle of a line of seven tiles: the first one to the left pays 0.1, the last
# tile on the right 1.


def begin(g, game):
    g.at[game], g.left[game] = 3, 3


def step(g, game, chosen):
    reward = 0.1 if g.left[game] == 3 and chosen[0] == 0 else 0.0
    g.at[game] += 2 * chosen[0] - 1
    g.left[game] -= 1
    if g.at[game] == 6:
        reward = 1.0
    return reward, g.left[game] == 0


def walker(g, game, i, out):
    out[0], out[1] = g.at[game], g.left[game]


LINE = CompiledGame(
    obs_space=ObsSpace(entities={"Walker": Entity(["at", "left"])}),
    action_space={"Go": GlobalCategoricalActionSpace(["left", "right"])},
    state={"at": Field((), np.int64, 0, 6), "left": Field((), np.int64, 0, 3)},
    settings={},
    reset=begin,
    step=step,
    entities={"Walker": Entities(walker, 1, 1)},
    actions={"Go": Actors()},
)


class LineRows(CompiledRows):
    """The line as a game that the trainer makes rows of."""

    def __init__(self, num_envs, seed=0):
        super().__init__(LINE, num_envs, seed)


class Line(CompiledEnvironment):
    """The line alone."""

    rows = LineRows

    def act(self, actions):
        raise AssertionError("rows play faster")


LineRows.environment = Line


def to_the_right(observation):
    return {"Go": GlobalCategoricalAction(index=1, label="right")}


class Evenly:
    """Knows nothing: all choices are as likely, and all positions worth the same."""

    def __init__(self, value=0.0):
        self.value, self.asked = value, 0

    def decide_rows(self, obs):
        self.asked += obs.num_frames
        name, choices = choices_of(obs)
        width = 1 + max(int(own.places.max()) for own in choices)
        probs = np.full((1, width), 1 / width, np.float32)
        return [Decision({}, {name: probs}, self.value) for _ in choices]


class ToTheLeft(Evenly):
    """Prefers the left."""

    def decide_rows(self, obs):
        probs = np.array([[0.6, 0.4]], np.float32)
        return [Decision({}, {"Go": probs}, 0.0) for _ in range(obs.num_frames)]


def went(search, obs):
    return search(obs)["Go"].as_array()[:, 0].tolist()


def test_it_finds_what_pays_three_steps_later():
    rows, guide = CompiledRows(LINE, 3), Evenly()
    obs = rows.reset()
    # At first it sees 0.1 on the left and 0 on the right, and only later the 1 behind that.
    assert went(RowsSearch(rows, guide, visits=6), obs) == [0, 0, 0]
    search = RowsSearch(rows, guide, visits=300)
    before = rows.get_state()
    assert went(search, obs) == [1, 1, 1]
    assert rows.get_state() == before
    assert search.decisions == 3
    assert search.seconds > 0
    assert guide.asked == 3 * (1 + 6) + 3 * (1 + 300)
    total = np.zeros(3)
    for _ in range(3):
        obs = rows.act(search(obs))
        total += obs.reward
    assert total.tolist() == [1.0] * 3
    assert obs.done.all()


def test_what_comes_after_the_end_counts_for_nothing():
    rows = CompiledRows(LINE, 1)
    rows.reset()
    (saved,) = rows.get_state()
    saved["env"] |= {"at": 5, "left": 1}  # one step on the right pays 1, and both end the game
    obs = rows.set_state([saved])
    _, (root,) = RowsSearch(rows, Evenly(value=7.0), visits=100)._grow(obs)
    assert root.total.tolist() == [0.0, root.visits[1]]
    assert root.visits.sum() == 100


def test_gamma_says_how_much_later_rewards_are_worth():
    rows = CompiledRows(LINE, 1)
    # 0.1 now is more than 1 after two more steps at 0.2 * 0.2.
    assert went(RowsSearch(rows, Evenly(), visits=300, gamma=0.2), rows.reset()) == [0]


def test_a_guide_guides_it():
    rows = CompiledRows(LINE, 1)
    assert went(RowsSearch(rows, Evenly(), visits=300), rows.reset()) == [1]
    for visits in (1, 30):  # one visit takes the most likely choice
        assert went(RowsSearch(rows, ToTheLeft(), visits), rows.reset()) == [0]
    assert went(RowsSearch(rows, ToTheLeft(), visits=1000), rows.reset()) == [1]


def test_it_selects_entities_that_are_allowed():
    rows = JobShopRows(2, jobs=3, machines=2, seed=1)
    rows.interpret(resets=True)
    search, obs = RowsSearch(rows, Evenly(), visits=10), rows.reset()
    ended = np.zeros(2, bool)
    while not ended.all():
        obs = rows.act(search(obs))  # what is not allowed would be refused
        ended |= obs.done


def test_rows_that_cannot_be_searched_are_refused():
    with pytest.raises(SettingError, match="cannot be searched"):
        RowsSearch(ConnectFourRows(4), Evenly())
    with pytest.raises(SettingError, match="cannot be searched"):
        RowsSearch(ListEnv(Farm, 2), Evenly())
    with pytest.raises(SettingError, match="number of visits"):
        RowsSearch(CompiledRows(LINE, 1), Evenly(), visits=0)


def test_a_run_is_evaluated_with_a_search(tmp_path):
    config = small_config(run_dir=str(tmp_path), total_timesteps=24)
    run = train(config, env=LineRows).run
    ahead, _, sampled, _ = evaluate_run(run, LineRows, episodes=8, search=200)
    assert ahead.player == "agent, 200 visits"
    assert ahead.mean("episodic_reward") == 1.0
    assert sampled.mean("episodic_reward") < 1.0


def test_games_of_a_search_are_recorded(tmp_path):
    run = train(small_config(run_dir=str(tmp_path), total_timesteps=24), env=LineRows).run
    made = record_run(run, tmp_path / "games", LineRows, episodes=8, rows=4, search=200)
    assert (made.rewards.count, made.rewards.mean) == (8, 1.0)
    assert not EpisodeDataset(tmp_path / "games").has_log_probs
    with pytest.raises(SettingError, match="without --greedy"):
        record_run(run, tmp_path / "more", LineRows, search=3, greedy=True)
    with pytest.raises(SettingError, match="number of visits"):
        record_run(run, tmp_path / "more", LineRows, search=0)


def test_a_script_of_a_compiled_game_plays_its_rows(tmp_path):
    run = train(small_config(run_dir=str(tmp_path), total_timesteps=24), env=LineRows).run
    _, script = evaluate_run(
        run, LineRows, episodes=3, greedy=True, scripted=f"{__name__}.to_the_right"
    )
    assert script.player == "scripted player"
    assert script.metrics["episodic_reward"].tolist() == [1.0] * 3


def test_what_cannot_be_searched_with_a_run_is_refused(tmp_path):
    remembers = replace(SMALL_NET, memory="lstm", memory_size=8)
    config = small_config(run_dir=str(tmp_path), total_timesteps=24, net=remembers)
    run = train(config, env=LineRows).run
    with pytest.raises(SettingError, match="unrelated positions"):
        evaluate_run(run, LineRows, episodes=2, greedy=True, search=3)
