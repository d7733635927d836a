"""A trained network as an agent for single observations."""

from __future__ import annotations

import io
import re
import sys
from dataclasses import asdict

import numpy as np
import pytest
import torch
from support.tiny_envs import Chain, Farm
from support.trainer_runs import small_config

import entity_env.agent
from entity_env import batch_obs, errors
from entity_env.errors import CheckpointError, RunFolderError, SettingError
from entity_env.runner import main
from ppo_trainer import train
from ppo_trainer.agent import load, load_agent
from ragged_net import EntityBatch


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of an environment that uses everything; one update."""
    folder = tmp_path_factory.mktemp("runs")
    return train(small_config(total_timesteps=24, run_dir=str(folder)), env=Farm).run


@pytest.fixture(scope="module")
def agent(run):
    return load_agent(run)


def observations(count, seed=0):
    """The first observations of a game, as random choices lead to them."""
    env = Farm(max_steps=10**6)
    env.seed(seed)
    shown = [env.reset()]
    while len(shown) < count:
        shown.append(env._draw(0.0, False))
    return shown


def expected(agent, observation):
    """Return the output of the network itself."""
    obs = batch_obs([observation], agent.obs_space, agent.action_space)
    with torch.no_grad():
        return agent.loaded.net(EntityBatch.from_obs(obs), greedy=True)


def test_actions_are_typed_and_allowed_and_sure_of_themselves(agent):
    kinds = set()
    for observation in observations(40):
        actions = agent.act(observation)
        output = expected(agent, observation)
        animals = observation.ids["Animal"]
        walk = actions["Walk"]
        assert list(walk.actors) == animals
        assert set(walk.labels) <= {"left", "stay", "right"}
        assert walk.probs.shape == (len(animals), 3)
        assert walk.probs.dtype == np.float32
        if animals:
            np.testing.assert_array_equal(walk.probs, output.actions["Walk"].probs.numpy())
            mask = observation.actions["Walk"].mask
            assert (walk.probs[~mask] == 0).all()
            assert mask[np.arange(len(animals)), walk.indices].all()
            np.testing.assert_allclose(walk.probs.sum(axis=1), 1, rtol=1e-5)
        eat = actions["Eat"]
        if "Eat" in observation.actions:
            foods = observation.actions["Eat"].actee_ids
            assert eat.probs.shape == (len(animals), len(foods))
            np.testing.assert_allclose(eat.probs.sum(axis=1), 1, rtol=1e-5)
            for own, food in zip(eat.probs, eat.actees, strict=True):
                assert own[foods.index(food)] > 0
        else:
            assert (list(eat.actors), eat.probs.shape[0]) == ([], 0)
        assert ("Weather" in actions) == ("Weather" in observation.actions)
        if "Weather" in actions:
            weather = actions["Weather"]
            np.testing.assert_array_equal(weather.probs, output.actions["Weather"].probs.numpy()[0])
            assert weather.probs[weather.index] > 0
        kinds.add(tuple(name for name in actions if getattr(actions[name], "actors", [0])))
        assert agent.value(observation) == pytest.approx(float(output.value[0]), abs=1e-6)
    assert len(kinds) >= 4  # with and without walkers, food and weather


def test_choices_follow_the_probabilities(run):
    # Draws from one observation: shares within 5 standard deviations of the probabilities.
    observation = next(o for o in observations(40) if len(o.ids["Animal"]) == 3)
    agent = load_agent(run, seed=1)
    drawn = np.array([agent.act(observation)["Walk"].indices for _ in range(200)])
    probs = agent.act(observation)["Walk"].probs
    for actor in range(3):
        shares = np.bincount(drawn[:, actor], minlength=3) / 200
        assert (np.abs(shares - probs[actor]) <= 5 * np.sqrt(probs[actor] / 200)).all()


def test_greedy_takes_the_most_probable_and_a_seed_gives_one_sequence(run):
    shown = observations(30)

    def walks(**options):
        agent = load_agent(run, **options)
        return [agent.act(observation)["Walk"].indices.tolist() for observation in shown]

    greedy = load_agent(run, greedy=True)
    for observation in shown:
        walk = greedy.act(observation)["Walk"]
        assert walk.indices.tolist() == walk.probs.argmax(axis=1).tolist()
    assert walks(seed=3) == walks(seed=3) != walks(seed=4)
    assert walks() == walks()
    # Asking for a value draws nothing.
    agent = load_agent(run, seed=3)
    again = []
    for observation in shown:
        agent.value(observation)
        again.append(agent.act(observation)["Walk"].indices.tolist())
    assert again == walks(seed=3)


def as_plain(actions):
    """Actions without their probabilities, as values that compare."""
    return {
        name: {
            part: list(value) if np.ndim(value) else value
            for part, value in asdict(action).items()
            if part != "probs"
        }
        for name, action in actions.items()
    }


def test_many_observations_at_once_are_as_one_by_one(run, agent):
    shown = observations(60, seed=4)
    together = agent.act_many(iter(shown), greedy=True)
    assert len({len(o.ids["Animal"]) for o in shown}) >= 3, "frames of several sizes"
    for observation, actions in zip(shown, together, strict=True):
        alone = agent.act(observation, greedy=True)
        assert actions.keys() == alone.keys()
        for name in actions:
            np.testing.assert_allclose(actions[name].probs, alone[name].probs, atol=1e-6)
            assert np.shape(actions[name].probs) == np.shape(alone[name].probs)
        assert as_plain(actions) == as_plain(alone)
    assert agent.act_many([]) == []
    # One seed draws the same numbers again, and several observations at once those of one batch.
    first, second = (load_agent(run, seed=3).act_many(shown) for _ in range(2))
    assert [as_plain(a) for a in first] == [as_plain(a) for a in second]


def test_what_is_drawn_and_what_is_greedy_is_said_for_each_call(run):
    free = (o for o in observations(40) if len(o.ids["Animal"]) == 3)
    observation = next(o for o in free if (o.actions["Walk"].mask.sum(axis=1) > 1).any())
    drawing, greedy = load_agent(run, seed=1), load_agent(run, seed=1, greedy=True)
    best = greedy.act(observation)["Walk"].probs.argmax(axis=1).tolist()

    def walks(agent, **how):
        return [agent.act(observation, **how)["Walk"].indices.tolist() for _ in range(20)]

    assert walks(drawing, greedy=True) == [best] * 20
    assert walks(greedy) == [best] * 20
    assert len({tuple(walk) for walk in walks(drawing)}) > 1
    assert len({tuple(walk) for walk in walks(greedy, greedy=False)}) > 1
    assert "draws its choices" in repr(drawing)
    assert "greedy" in repr(greedy)
    assert str(run) in repr(greedy)


def test_which_of_many_observations_does_not_fit_is_said(agent):
    with pytest.raises(errors.EntityEnvError) as caught:
        agent.act_many([*observations(2), Chain().reset()])
    assert "observation 2" in caught.value.where
    with pytest.raises(errors.ObservationError, match="needs a list of observations") as caught:
        agent.act_many(observations(1)[0])
    assert caught.value.hint == "act takes a single observation"


def test_no_run_and_no_checkpoint_are_explained(tmp_path, run, monkeypatch):
    with pytest.raises(RunFolderError, match="is not a run folder"):
        load_agent(tmp_path / "nothing")
    folder = run.parent / run.name
    with pytest.raises(RunFolderError, match=re.escape(f"did you mean {str(folder)!r}?")):
        load_agent(run.with_name(run.name[:-2]))
    with pytest.raises(RunFolderError, match="the newest runs are") as caught:
        load_agent(run.with_name("???"))
    assert repr(str(folder)) in caught.value.hint
    monkeypatch.chdir(run.parent)
    with pytest.raises(RunFolderError, match=re.escape(f"the newest runs are {run.name!r}")):
        load_agent("")
    for checkpoint in (run / "checkpoints").glob("step_*"):
        meant = f"a checkpoint of the run {str(run)!r}"
        with pytest.raises(RunFolderError, match=re.escape(meant)):
            load_agent(checkpoint)
    with pytest.raises(RunFolderError, match=re.escape(f"a file of the run {str(run)!r}")):
        load_agent(run / "config.yaml")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "config.yaml").write_text((run / "config.yaml").read_text())
    with pytest.raises(CheckpointError, match="no checkpoint yet"):
        load_agent(tmp_path / "empty")


def test_the_plug_in_is_installed_and_passes_the_seed_on(run):
    loaded = entity_env.agent.load_agent(str(run), 5)
    assert isinstance(loaded, type(load(str(run), 5)))
    (observation,) = observations(1, seed=2)
    assert loaded.act(observation) == load_agent(run, seed=5).act(observation)


def test_an_agent_needs_no_environment_that_can_be_imported(tmp_path, capsys):
    config = small_config(total_timesteps=24, run_dir=str(tmp_path))
    run = train(config, env=lambda: Farm()).run
    (observation,) = observations(1)
    assert "Walk" in load_agent(run, seed=1).act(observation)
    assert main(["support.tiny_envs.Farm", "--agent", str(run), "--auto"]) == 0
    assert "the agent expects a return of" in capsys.readouterr().out


def test_the_terminal_plays_beside_a_run(run, monkeypatch, capsys):
    arguments = ["support.tiny_envs.Farm", "--agent", str(run), "--seed", "1"]
    assert main([*arguments, "--auto"]) == 0
    alone = capsys.readouterr().out
    assert "the agent expects a return of" in alone
    assert "%" in alone
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n" * 500))
    assert main([*arguments, "--episodes", "1"]) == 0
    asked = capsys.readouterr().out

    # Enter everywhere is the agent's game.
    def story(text):
        return [line for line in text.splitlines() if line.startswith(("---", "  ->"))]

    assert story(asked) == story(alone)


def test_the_terminal_refuses_the_agent_of_another_environment(run, tmp_path, capsys):
    assert main(["support.tiny_envs.Chain", "--agent", str(run)]) == 1
    error = capsys.readouterr().err
    assert (
        "SpaceError: the agent was trained on another environment: the environment has no" in error
    )
    assert main(["support.tiny_envs.Chain", "--agent", str(tmp_path / "nothing")]) == 1
    assert "RunFolderError" in capsys.readouterr().err


def test_an_agent_is_made_or_asked_to_be_surer(run):
    (observation,) = observations(1)
    usual, sure = load_agent(run), load_agent(run, temperature=0.25, top_k=2)
    assert "temperature 0.25, top_k 2" in repr(sure)
    plain = usual.act(observation)
    for name, action in sure.act(observation).items():
        if plain[name].probs is not None and plain[name].probs.size:
            squared = np.atleast_2d(plain[name].probs).astype(np.float64) ** 4
            least = np.sort(squared, axis=1)[:, -2:-1] if squared.shape[1] > 1 else 0
            squared = np.where(squared >= least, squared, 0)
            expected = squared / squared.sum(axis=1, keepdims=True)
            np.testing.assert_allclose(np.atleast_2d(action.probs), expected, atol=1e-4)
    asked = usual.act(observation, temperature=0.25, top_k=2)
    for name, action in sure.act(observation).items():
        np.testing.assert_allclose(asked[name].probs, action.probs, atol=1e-6)
    with pytest.raises(SettingError, match="temperature"):
        load_agent(run, temperature=0)
