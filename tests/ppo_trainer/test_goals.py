"""Trainings that end when a mean is reached."""

from contextlib import nullcontext

import pytest
from support.trainer_envs import Foraging, SavedForaging, Truncated
from support.trainer_runs import checkpoints, metrics, resuming, small_config

from entity_env.errors import SettingError
from ppo_trainer import (
    CheckpointConfig,
    EvalConfig,
    PPOConfig,
    RolloutConfig,
    TrainConfig,
    resume,
    train,
)
from ppo_trainer.config import config_from_dict
from ppo_trainer.reporting.recent_episodes import RecentEpisodes
from ppo_trainer.reporting.shown_metrics import with_screen_names
from ppo_trainer.training.goals import check_metrics


def test_a_training_ends_when_the_mean_over_the_last_episodes_is_reached(tmp_path, capsys):
    # 4 rows and episodes of 3 steps: 8 episodes in each update of 24 frames, whatever it does.
    # The reward of an episode is 1 + 2 + 3; 100 episodes have ended after 13 updates.
    config = small_config(
        total_timesteps=24_000,
        run_dir=str(tmp_path),
        stop_at={"episodic_reward": 6},
        eval=EvalConfig(episodes=4),
    )
    result = train(config, env=Truncated)
    assert (result.steps, result.interrupted) == (13 * 24, False)
    assert len(result.evaluations) == 3
    assert checkpoints(result.run)[-1].name == f"step_{13 * 24:012d}"
    printed = capsys.readouterr().out
    assert "episodic_reward 6.000" in printed
    assert "stop_at=null" in printed, "to train it further, the goal has to go"


def test_metrics_go_by_their_names_on_the_screen(tmp_path):
    config = small_config(
        total_timesteps=960, run_dir=str(tmp_path), stop_at={"reward": 6}, stop_below={"length": 3}
    )
    assert train(config, env=Truncated).steps == 312
    # A game's own metric of that name is that of the game.
    assert with_screen_names({"episodic_reward": 1, "reward": 2})["reward"] == 2


def test_all_goals_have_to_be_reached_and_some_from_above(tmp_path):
    config = small_config(total_timesteps=336, run_dir=str(tmp_path))
    goals = {"stop_at": {"episodic_reward": 6}, "stop_below": {"episodic_length": 3}}
    assert train(TrainConfig(**{**vars(config), **goals}), env=Truncated).steps == 312
    for unmet in ({"stop_below": {"episodic_length": 2}}, {"stop_at": {"episodic_reward": 6.001}}):
        values = {**vars(config), **goals, **unmet}
        assert train(TrainConfig(**values), env=Truncated).steps == 336


def test_the_mean_that_ends_a_training_is_the_first_that_does(tmp_path):
    free = small_config(
        total_timesteps=960,
        run_dir=str(tmp_path),
        rollout=RolloutConfig(num_envs=8, steps=6, stagger=False),
        ppo=PPOConfig(epochs=1, minibatch_size=24),
    )
    recent, means = RecentEpisodes(8), {}
    for record in metrics(train(free, env=SavedForaging).run):
        mean = recent.add(record).get("episodic_reward")
        if recent.is_full:
            means[record["steps"]] = mean
    assert len(means) > 5
    goal = sorted(means.values())[-3]
    values = {**vars(free), "stop_at": {"episodic_reward": goal}}
    stopped = train(TrainConfig(**values), env=SavedForaging)
    assert stopped.steps == next(steps for steps, mean in means.items() if mean >= goal)


def test_a_run_that_has_reached_its_goal_trains_on_when_asked_without(tmp_path):
    config = small_config(
        total_timesteps=24_000, run_dir=str(tmp_path), stop_at={"episodic_reward": 6}
    )
    stopped = train(config, env=Truncated)
    again = train(resuming(config, stopped.run), env=Truncated)
    assert again.steps == 312, "its last episodes are known to the resumed run"
    more = resume(stopped.run, env=Truncated, total_timesteps=480, stop_at=None)
    assert more.steps == 480


def test_an_evaluation_may_be_the_goal(tmp_path):
    config = small_config(
        total_timesteps=24_000,
        run_dir=str(tmp_path),
        stop_at={"eval/episodic_reward": 6},
        eval=EvalConfig(episodes=0, every=20),
    )
    assert train(config, env=Truncated).steps == 20 * 24


def test_a_metric_that_there_is_not_is_named_with_those_there_are(tmp_path):
    config = small_config(
        total_timesteps=24_000, run_dir=str(tmp_path), run_name="x", stop_at={"wim": 0.9}
    )
    with pytest.raises(SettingError, match="stop_at: no episode has a metric 'wim'") as caught:
        train(config, env=Foraging)
    assert "did you mean 'win'?" in caught.value.hint
    assert "episodic_reward" in str(caught.value)
    steps = int(checkpoints(tmp_path / "x")[-1].name.removeprefix("step_"))
    assert 0 < steps < 1000, "saved, and soon"


MEANS = {"win": 0.5, "fuel": 3.0}


@pytest.mark.parametrize(
    ("best", "means", "is_full", "refused"),
    [
        ("eval/nonsense", MEANS, True, False),  # not evaluated yet
        ("eval/nonsense", MEANS | {"eval/fuel": 3.0}, False, True),
        ("eval/win", {"fuel": 3.0, "eval/fuel": 3.0}, False, False),  # nobody has won yet
        ("eval/win", {"fuel": 3.0, "eval/fuel": 3.0}, True, True),
        ("fuell", MEANS, False, False),
        ("fuell", MEANS, True, True),
    ],
)
def test_an_unknown_metric_is_refused_as_soon_as_it_can_be_known(best, means, is_full, refused):
    settings = TrainConfig(checkpoint=CheckpointConfig(best=best), eval=EvalConfig(every=1))
    with pytest.raises(SettingError, match=best) if refused else nullcontext():
        check_metrics(settings, means, is_full)


@pytest.mark.parametrize("best", ["loss/value", "policy/entropy", "steps"])
def test_a_number_of_updates_is_no_metric_of_episodes(tmp_path, best):
    config = small_config(run_dir=str(tmp_path), checkpoint=CheckpointConfig(best=best))
    with pytest.raises(SettingError, match=f"checkpoint.best: '{best}' is a number of updates"):
        train(config, env=Truncated)
    assert list(tmp_path.iterdir()) == []


def test_goals_are_numbers_by_names():
    assert TrainConfig(stop_at={"win": 1}).stop_at == {"win": 1.0}
    assert TrainConfig(stop_at={}).stop_at is None
    # The command line nests names with dots: stop_at.energy.mean=5.
    nested = config_from_dict({"stop_at": {"energy": {"mean": 5, "max": 7}, "win": 0.5}})
    assert nested.stop_at == {"energy.mean": 5.0, "energy.max": 7.0, "win": 0.5}
    for wrong in ("0.9", True, float("nan"), float("inf"), None, [1]):
        with pytest.raises(SettingError, match=r"stop_at\.win is not a goal"):
            TrainConfig(stop_at={"win": wrong})
    with pytest.raises(SettingError, match="stop_below has the wrong type"):
        TrainConfig(stop_below=5)
    with pytest.raises(SettingError, match="there is no evaluation during the training") as caught:
        TrainConfig(stop_at={"eval/win": 0.9})
    assert "eval.every" in caught.value.hint
