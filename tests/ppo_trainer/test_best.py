"""The best network of a run: which one it is, where it is, and who may not touch it."""

import json

import pytest
from safetensors.torch import load_file
from support.trainer_envs import SavedForaging, Truncated
from support.trainer_runs import (
    assert_same,
    checkpoints,
    metrics,
    parameters,
    reseal,
    resuming,
    small_config,
)

from entity_env.errors import RunFolderError, SettingError
from ppo_trainer import CheckpointConfig, EvalConfig, PPOConfig, RolloutConfig, TrainConfig, train
from ppo_trainer.agent import load_agent
from ppo_trainer.evaluate import evaluate_run
from ppo_trainer.reporting.recent_episodes import RecentEpisodes
from ppo_trainer.runs.load_run import load_policy


def config_for(folder, best="episodic_reward", steps=960, **changes):
    """20 updates of 48 frames; 100 episodes of 5 steps have ended after 11 of them."""
    return small_config(
        total_timesteps=steps,
        run_dir=str(folder),
        rollout=RolloutConfig(num_envs=8, steps=6, stagger=False),
        ppo=PPOConfig(epochs=1, minibatch_size=24),
        checkpoint=CheckpointConfig(every=4, keep=2, best=best, **changes),
    )


class Networks:
    """A callback that keeps the network after each update."""

    def __init__(self):
        self.after = {}

    def __call__(self, session):
        self.after[session.updates] = parameters(session.net)


def best_update(run, choose, name="episodic_reward"):
    """The update after which the mean over enough episodes was the best, and that mean."""
    recent, means = RecentEpisodes(8), {}
    for record in metrics(run):
        value = recent.add(record).get(name)
        if recent.is_full:
            means[record["update"]] = value
    value = choose(means.values())
    return next(update for update, mean in means.items() if mean == value), value


@pytest.mark.parametrize("mode", ["max", "min"])
def test_the_network_with_the_best_mean_is_kept(tmp_path, mode):
    networks = Networks()
    config = config_for(tmp_path, best_mode=mode)
    run = train(config, env=SavedForaging, callbacks=[networks]).run
    update, value = best_update(run, {"max": max, "min": min}[mode])
    facts = json.loads((run / "best" / "state.json").read_text())
    assert (facts["update"], facts["steps"]) == (update, update * 48)
    assert (facts["metric"], facts["mode"], facts["value"]) == ("episodic_reward", mode, value)
    assert_same(load_file(run / "best" / "model.safetensors"), networks.after[update])
    # It is none of the checkpoints that the run resumes from.
    assert [folder.name for folder in checkpoints(run)] == [
        "step_000000000768",
        "step_000000000960",
    ]


def test_whoever_plays_a_run_can_be_pointed_at_its_best(tmp_path, monkeypatch):
    run = train(config_for(tmp_path, best_mode="min"), env=SavedForaging).run
    best = load_file(run / "best" / "model.safetensors")
    newest = load_file(checkpoints(run)[-1] / "model.safetensors")
    assert any((best[name] != newest[name]).any() for name in best)
    assert_same(load_policy(run / "best", SavedForaging).net.state_dict(), best)
    assert_same(load_agent(run / "best").loaded.net.state_dict(), best)
    assert_same(load_agent(run).loaded.net.state_dict(), newest)
    results = evaluate_run(run / "best", SavedForaging, episodes=4)
    assert results[0].episodes == 4
    monkeypatch.chdir(run / "best")
    assert_same(load_agent(".").loaded.net.state_dict(), best)


def test_a_killed_and_resumed_run_keeps_the_same_best_as_one_that_never_stopped(tmp_path):
    whole = train(config_for(tmp_path / "whole", best_mode="min"), env=SavedForaging).run
    config = config_for(tmp_path / "part", best_mode="min")
    part = train(config, env=SavedForaging, stop=lambda update: update == 14).run
    train(resuming(config, part), env=SavedForaging)
    for file in ("model.safetensors", "state.json"):
        assert (part / "best" / file).read_bytes() == (whole / "best" / file).read_bytes(), file


def test_a_better_network_of_long_ago_survives_a_resume(tmp_path):
    # Another seed's episodes are other ones; the recorded value is out of their reach.
    config = config_for(tmp_path, steps=600)
    run = train(config, env=SavedForaging).run
    reseal(run / "best", lambda facts: facts.update(value=1e6))
    kept = load_file(run / "best" / "model.safetensors")
    train(resuming(config, run, total_timesteps=960), env=SavedForaging)
    assert_same(load_file(run / "best" / "model.safetensors"), kept)
    # Asked for another metric, the resumed run begins anew.
    other = CheckpointConfig(every=4, keep=2, best="win")
    more = resuming(config, run, total_timesteps=1200, checkpoint=other)
    train(more, env=SavedForaging)
    assert json.loads((run / "best" / "state.json").read_text())["metric"] == "win"


def test_a_run_of_few_episodes_keeps_its_last_network(tmp_path):
    # Means over a handful of episodes are luck: none is better than the next.
    networks = Networks()
    run = train(config_for(tmp_path, steps=144), env=SavedForaging, callbacks=[networks]).run
    assert_same(load_file(run / "best" / "model.safetensors"), networks.after[3])
    assert not json.loads((run / "best" / "state.json").read_text())["is_sure"]


@pytest.mark.parametrize("best", ["eval/episodic_reward", "eval/reward"])
def test_evaluations_may_say_which_is_the_best(tmp_path, best):
    values = {**vars(config_for(tmp_path)), "eval": EvalConfig(episodes=0, every=4)}
    values["checkpoint"] = CheckpointConfig(every=4, best=best)
    config = TrainConfig(**values)
    run = train(config, env=SavedForaging).run
    name = "eval/episodic_reward"
    evaluated = {r["update"]: r[name] for r in metrics(run) if name in r}
    facts = json.loads((run / "best" / "state.json").read_text())
    assert facts["value"] == max(evaluated.values())
    assert evaluated[facts["update"]] == facts["value"]


def test_an_evaluation_is_sure_before_many_games_were_trained_on(tmp_path):
    """100 games are over after 11 updates; here are 10."""
    values = {**vars(config_for(tmp_path, steps=480))}
    values["eval"] = EvalConfig(episodes=0, every=1)
    values["checkpoint"] = CheckpointConfig(every=4, best="eval/episodic_reward")
    run = train(TrainConfig(**values), env=SavedForaging).run
    evaluated = [record["eval/episodic_reward"] for record in metrics(run)]
    facts = json.loads((run / "best" / "state.json").read_text())
    assert (len(evaluated), facts["value"]) == (10, max(evaluated))
    assert facts["update"] == 1 + evaluated.index(max(evaluated))


def test_the_end_says_what_the_best_is_and_a_metric_that_is_none_is_named(tmp_path, capsys):
    run = train(config_for(tmp_path), env=Truncated).run
    assert f"{run / 'best'}: episodic_reward 6.000 at step" in capsys.readouterr().out
    with pytest.raises(SettingError, match=r"checkpoint.best: no episode has a metric 'win'"):
        train(config_for(tmp_path, best="win"), env=Truncated)
    with pytest.raises(SettingError, match=r"did you mean 'reward'"):
        train(config_for(tmp_path, best="rewards"), env=Truncated)


def test_a_run_without_a_best_network_says_how_to_keep_one(tmp_path):
    run = train(small_config(total_timesteps=24, run_dir=str(tmp_path)), env=SavedForaging).run
    with pytest.raises(RunFolderError) as caught:
        load_agent(run / "best")
    assert "checkpoint.best=<metric>" in caught.value.hint


def test_a_training_goes_on_with_the_run_and_not_with_its_best(tmp_path):
    config = config_for(tmp_path, steps=24)
    run = train(config, env=SavedForaging).run
    with pytest.raises(RunFolderError) as caught:
        train(resuming(config, run / "best"), env=SavedForaging)
    assert repr(str(run)) in caught.value.hint
