"""Games that make their rows themselves, as ``VecEnv`` classes: ours, and anybody's."""

from __future__ import annotations

import numpy as np
import pytest
from ragged_envs.minesweeper import MineSweeper
from support.trainer_runs import assert_same, network, parameters, small_config

from entity_env import (
    CategoricalActionMask,
    CategoricalActionSpace,
    Entity,
    Environment,
    Observation,
    ObsSpace,
    VecEnv,
    batch_obs,
    errors,
)
from ppo_trainer import EvalConfig, RolloutConfig, resume, train
from ppo_trainer.environments import make_factory, with_env
from ppo_trainer.evaluate import evaluate_run
from ppo_trainer.evaluation.comparison import evaluate
from ppo_trainer.runs.load_run import load_policy
from ppo_trainer.watch import watch

OBS_SPACE = ObsSpace(entities={"Walker": Entity(["place"])})
ACTION_SPACE = {"Go": CategoricalActionSpace(["back", "on"])}


def shown(place, reward=0.0, done=False):
    return Observation(
        features={"Walker": [[float(place)]]},
        ids={"Walker": ["w"]},
        actions={"Go": CategoricalActionMask(actor_types=["Walker"])},
        reward=reward,
        done=done,
    )


class Walk(Environment):
    """The game of ``WalkRows`` alone: from place 0 to ``goal``, one place on or back."""

    made = 0

    def __init__(self, goal=3):
        type(self).made += 1
        self.goal = goal

    def obs_space(self):
        return OBS_SPACE

    def action_space(self):
        return ACTION_SPACE

    def reset(self):
        self.place = 0
        return shown(0)

    def act(self, actions):
        self.place += 1 if actions["Go"].indices[0] else -1
        return shown(self.place, float(self.place == self.goal), abs(self.place) == self.goal)


class WalkRows(VecEnv):
    """All walkers in one array. Ends at ``goal``, or as far on the other side."""

    def __init__(self, num_envs, seed=0, goal=3):
        self.goal = goal
        self.places = np.zeros(num_envs, np.int64)
        self.lengths = np.zeros(num_envs, np.int64)

    def obs_space(self):
        return OBS_SPACE

    def action_space(self):
        return ACTION_SPACE

    def __len__(self):
        return len(self.places)

    def _reset(self, seed):
        self.places[:] = self.lengths[:] = 0
        return batch_obs([shown(0) for _ in self.places], OBS_SPACE, ACTION_SPACE)

    def _act(self, chosen):
        self.places += 2 * chosen["Go"].as_array()[:, 0] - 1
        self.lengths += 1
        done, won = np.abs(self.places) == self.goal, self.places == self.goal
        nan = np.where(done, 0.0, np.nan)
        metrics = {"episodic_length": self.lengths + nan, "episodic_reward": won + nan}
        self.places[done] = self.lengths[done] = 0
        rows = zip(self.places, won, done, strict=True)
        obs = batch_obs([shown(p, float(w), bool(d)) for p, w, d in rows], OBS_SPACE, ACTION_SPACE)
        still = batch_obs([shown(p) for p in self.places], OBS_SPACE, ACTION_SPACE)
        return type(obs)(
            features=still.features,
            action_masks=still.action_masks,
            reward=obs.reward,
            done=obs.done,
            truncated=obs.truncated,
            global_features=obs.global_features,
            metrics=metrics if done.any() else {},
        )

    def _get_state(self):
        raise NotImplementedError

    def _set_state(self, state):
        raise NotImplementedError

    def _render(self, **kwargs):
        raise NotImplementedError

    def _close(self):
        """There is nothing to release."""


class NamedWalkRows(WalkRows):
    """Says what the game is alone."""

    environment = Walk


def scripted(observation):
    raise AssertionError("never had to act")


def run_of(tmp_path, kind, **changes):
    changes = {"total_timesteps": 24, "eval": EvalConfig(episodes=5), **changes}
    return train(small_config(run_dir=str(tmp_path), **changes), env=kind)


@pytest.mark.parametrize("kind", [WalkRows, NamedWalkRows])
def test_rows_of_ones_own_are_trained_on_and_evaluated_on(tmp_path, kind):
    Walk.made = 0
    done = run_of(tmp_path, kind, env={"_target_": "?", "goal": 2})
    assert done.steps == 24
    assert [e.player for e in done.evaluations] == [
        "agent, greedy",
        "agent, sampled",
        "random play",
    ]
    for played in done.evaluations:
        assert played.episodes == 5
        assert played.metrics["episodic_length"].min() >= 2
    assert Walk.made == 0, "nothing was played one by one"
    # The run folder knows the class by its path.
    config = load_policy(done.run).config
    assert config.env == {"_target_": f"{__name__}.{kind.__name__}", "goal": 2}
    again = evaluate_run(done.run, episodes=5)
    assert [e.summary() for e in again] == [e.summary() for e in done.evaluations]
    assert resume(done.run, total_timesteps=48).steps == 48


def test_rows_that_name_their_environment_can_be_watched(tmp_path, capsys):
    done = run_of(tmp_path, NamedWalkRows, env={"_target_": "?", "goal": 1})
    capsys.readouterr()
    watch(done.run, episodes=1)
    assert "episode 1, step 1, reward" in capsys.readouterr().out


def test_rows_without_an_environment_say_what_is_missing_for_watching(tmp_path):
    done = run_of(tmp_path, WalkRows)
    with pytest.raises(errors.UnknownEnvironmentError, match=r"WalkRows\.environment = MyEnv"):
        watch(done.run, episodes=1)


def test_a_script_needs_the_environment_before_the_training_starts(tmp_path):
    script = EvalConfig(episodes=2, scripted=f"{__name__}.scripted")
    with pytest.raises(errors.UnknownEnvironmentError, match="does not name an environment"):
        run_of(tmp_path, WalkRows, eval=script)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [WalkRows, NamedWalkRows])
@pytest.mark.parametrize("setting", ["gaol", "num_envs", "seed"])
def test_settings_that_the_rows_do_not_take_are_refused(kind, setting):
    config = small_config(env={"_target_": f"{__name__}.{kind.__name__}", setting: 2})
    with pytest.raises(errors.SettingError, match=setting) as caught:
        make_factory(config)
    assert caught.value.options == "'goal'"


def test_endless_rows_are_cut_off_in_an_evaluation():
    config = small_config(eval=EvalConfig(max_steps=7), env={"_target_": "?", "goal": 1000})
    game = make_factory(with_env(config, WalkRows))
    net = network(Walk(), config)
    result = evaluate(net, game, config, 6, greedy=False)
    assert result.metrics["episodic_length"].tolist() == [7.0] * 6
    assert result.metrics["episodic_reward"].tolist() == [0.0] * 6


# ---- MineSweeper --------------------------------------------------------------------------------

SMALL = {"width": 3, "height": 3, "nmines": 1, "max_steps": 8}


def minesweeper(name="minesweeper", **changes):
    return small_config(env={"_target_": name, **SMALL}, **changes)


def test_minesweeper_trains_and_is_evaluated_without_the_readable_class(tmp_path, monkeypatch):
    def refuse(self, actions):
        raise AssertionError("the readable class was played")

    monkeypatch.setattr(MineSweeper, "act", refuse)
    evaluation = EvalConfig(episodes=6, every=1)
    done = train(minesweeper(run_dir=str(tmp_path), total_timesteps=48, eval=evaluation))
    assert [e.episodes for e in done.evaluations] == [6, 6, 6]
    assert {*done.evaluations[0].metrics} == {"win", "episodic_length", "episodic_reward"}


def test_worker_processes_are_not_used_for_native_rows_and_that_is_said(tmp_path, capsys):
    nets = []
    for processes in (0, 2):
        config = minesweeper(
            run_dir=str(tmp_path),
            total_timesteps=24,
            eval=EvalConfig(episodes=0),
            rollout=RolloutConfig(num_envs=4, steps=6, processes=processes),
        )
        nets.append(parameters(train(config).net))
        said = "rollout.processes has no effect: MineSweeperRows" in capsys.readouterr().out
        assert said == (processes == 2)
    assert_same(*nets)
