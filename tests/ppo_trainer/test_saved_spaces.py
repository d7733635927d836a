"""A network reads an environment that shows more than it was trained with."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ragged_envs.minesweeper import MineSweeper, MineSweeperRows
from support.richer_envs import Richer
from support.trainer_envs import SavedForaging
from support.trainer_runs import assert_same, checkpoints, metrics, parameters, small_config

from entity_env import Entity, Observation, ObsSpace
from entity_env.errors import CheckpointError, EntityEnvError, RecordingError, RunFolderError
from entity_env.recording import Replay
from entity_env.runner import play_in_terminal
from entity_env.storage.space_json import spaces_from_json
from ppo_trainer import EvalConfig, train
from ppo_trainer.agent import load_agent
from ppo_trainer.evaluate import evaluate_run
from ppo_trainer.evaluation.comparison import evaluate
from ppo_trainer.evaluation.steps import play_run
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.load_run import load_policy


@pytest.fixture
def config(tmp_path):
    return small_config(run_dir=str(tmp_path))


@pytest.fixture
def run(config):
    """A run that was stopped in the middle."""
    return train(config, env=SavedForaging, stop=lambda update: update == 3).run


def test_a_run_keeps_its_spaces(run):
    saved = json.loads((run / "spaces.json").read_text())
    env = SavedForaging()
    assert spaces_from_json(saved) == (env.obs_space(), env.action_space())
    assert RunFolder.open(run).read_spaces() == (env.obs_space(), env.action_space())


@pytest.mark.parametrize("processes", [0, 2])
def test_a_resumed_run_in_a_richer_environment_is_the_same_run(config, run, processes, capsys):
    whole = train(config, env=SavedForaging)
    rollout = replace(config.rollout, processes=processes)
    resumed = train(replace(config, resume=str(run), rollout=rollout), env=Richer)
    assert_same(parameters(resumed.net), parameters(whole.net))
    assert metrics(resumed.run) == metrics(whole.run)
    assert resumed.net.obs_space == SavedForaging().obs_space()
    told = capsys.readouterr().out
    left_out = "entity type 'Rock', feature 'weight' of 'Food', global feature 'time'"
    assert f"not seen, as the network does not know it: {left_out}" in told


def test_a_network_is_evaluated_and_watched_in_a_richer_environment(config, run):
    a, b = (
        load_policy(run, env=SavedForaging, device="cpu"),
        load_policy(run, env=Richer, device="cpu"),
    )
    assert_same(parameters(a.net), parameters(b.net))
    results = [evaluate(loaded.net, loaded.game, config, 20, greedy=False) for loaded in (a, b)]
    assert results[0].metrics.keys() == results[1].metrics.keys()
    for name, column in results[0].metrics.items():
        np.testing.assert_array_equal(column, results[1].metrics[name])
    steps = [list(play_run(loaded, episodes=2, greedy=True)) for loaded in (a, b)]
    assert [step.reward for step in steps[0]] == [step.reward for step in steps[1]]
    assert "weight" not in steps[1][0].text


def test_games_of_a_richer_environment_are_replayed(run, tmp_path, capsys):
    """The agent knows a part of each observation; the replay shows that part again."""
    evaluate_run(run, Richer, episodes=2, greedy=True, replays=tmp_path / "games")
    path, words = tmp_path / "mine.replay", ("support.richer_envs.Richer", {})
    play_in_terminal(Richer, load_agent(run), seed=1, auto=True, replay=(path, *words))
    for file, episodes in ((tmp_path / "games" / "0000.replay", 2), (path, 1)):
        moments = list(Replay.read(file).play(trust=True))
        assert sum(moment.obs.done.sum() for moment in moments) >= episodes
        assert "Rock" not in moments[0].obs.features
    lines = path.read_text().splitlines(keepends=True)
    head = json.loads(lines[0]) | {"shown": {"entities": []}}
    path.write_text(json.dumps(head) + "\n" + "".join(lines[1:]))
    with pytest.raises(RecordingError, match="damaged at line 1"):
        Replay.read(path)


def test_an_agent_acts_on_observations_of_a_richer_environment(run):
    plain, rich = load_agent(run, greedy=True), load_agent(run, env=Richer, greedy=True)
    envs = SavedForaging(), Richer()
    for env in envs:
        env.seed(1)
    shown = [env.reset() for env in envs]
    for _ in range(20):
        actions = [plain.act(shown[0]), rich.act(shown[1])]
        assert actions[0] == actions[1]
        assert plain.value(shown[0]) == rich.value(shown[1])
        shown = [env.act(own) for env, own in zip(envs, actions, strict=True)]
        if shown[0].done:
            shown = [env.reset() for env in envs]


def test_an_agent_says_what_it_does_not_know(run):
    with pytest.raises(EntityEnvError, match="Rock"):
        load_agent(run).act(Richer().reset())


def test_the_same_environment_is_not_filtered(run, capsys):
    loaded = load_policy(run, env=SavedForaging, device="cpu")
    assert type(loaded.game()) is SavedForaging
    assert "not seen, as the network" not in capsys.readouterr().out


class Reordered(SavedForaging):
    def obs_space(self) -> ObsSpace:
        return ObsSpace(entities=dict(reversed(super().obs_space().entities.items())))


def test_another_order_is_put_right_without_a_word(config, run, capsys):
    whole = train(config, env=SavedForaging)
    resumed = train(replace(config, resume=str(run)), env=Reordered)
    assert_same(parameters(resumed.net), parameters(whole.net))
    assert "not seen, as the network" not in capsys.readouterr().out


def walks(obs: Observation) -> Mapping[str, Any]:
    """A script that reads what the network does not know."""
    assert "Rock" in (obs.features or {})
    return {"Move": SimpleActions([]), "Pick": SimpleActions([])}


class SimpleActions(list):  # type: ignore[type-arg]
    """An action without actors."""

    indices: tuple[int, ...] = ()
    actees: tuple[int, ...] = ()


def test_a_script_sees_the_whole_game(config, run):
    scripted = EvalConfig(episodes=0, scripted=f"{__name__}.walks", max_steps=20)
    values = RunFolder.open(run)
    values.write_config(replace(values.read_config(), eval=scripted))
    players = [result.player for result in evaluate_run(run, Richer, episodes=3)]
    assert players == ["agent, greedy", "agent, sampled", "scripted player", "random play"]


class RicherRows(MineSweeperRows):
    """Compiled rows whose robots have one more feature in front: their number of neighbours, 0."""

    def obs_space(self) -> ObsSpace:
        space = super().obs_space()
        robot = Entity(["neighbours", *space.entities["Robot"].features])
        return ObsSpace(entities={**space.entities, "Robot": robot})

    def _reset(self, seed: Any) -> Any:
        return self._more(super()._reset(seed))

    def _act(self, chosen: Any) -> Any:
        return self._more(super()._act(chosen))

    def _set_state(self, state: Any) -> Any:
        return self._more(super()._set_state(state))

    def _more(self, obs: Any) -> Any:
        robots = obs.features["Robot"]
        wider = np.pad(robots.as_array(), ((0, 0), (1, 0)))
        features = {**obs.features, "Robot": robots.from_flattened(wider, robots.size1())}
        final = None if obs.final is None else self._more(obs.final)
        return replace(obs, features=features, final=final)


def test_compiled_rows_are_filtered_as_a_whole(config, capsys):
    config = replace(
        config, env={"_target_": "minesweeper", "orbital_cannon": True, "max_steps": 7}
    )
    whole = train(config)
    stopped = train(config, stop=lambda update: update == 3)
    resumed = train(replace(config, resume=str(stopped.run)), env=RicherRows)
    assert_same(parameters(resumed.net), parameters(whole.net))
    assert "feature 'neighbours' of 'Robot'" in capsys.readouterr().out
    loaded = load_policy(stopped.run, env=RicherRows, device="cpu")
    with loaded.game.rows(2, 0) as rows:
        assert rows.obs_space() == MineSweeper().obs_space()
    assert len(evaluate_run(stopped.run, RicherRows, episodes=4)) >= 3


class Blind(SavedForaging):
    def obs_space(self) -> ObsSpace:
        return ObsSpace(entities={"Robot": Entity(["x"]), "Food": Entity(["x"])})


class Foodless(SavedForaging):
    def obs_space(self) -> ObsSpace:
        return ObsSpace(entities={"Robot": Entity(["x", "step"]), "Foods": Entity(["x"])})


@pytest.mark.parametrize(
    ("env", "words"),
    [(Blind, "entity type 'Robot' has no feature 'step'"), (Foodless, "did you mean 'Foods'?")],
)
def test_what_the_network_knows_and_the_environment_lacks_is_named(config, run, env, words):
    for use in (
        lambda: load_policy(run, env=env, device="cpu"),
        lambda: train(replace(config, resume=str(run)), env=env),
    ):
        with pytest.raises(CheckpointError) as caught:
            use()
        assert words in str(caught.value)
        assert str(run) in str(caught.value)
    assert len(checkpoints(run)) == 2


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "[" * 9999, b"\xff\xfe", '{"entities": []}'])
def test_damaged_spaces_are_an_error_that_names_the_file(run, text):
    (run / "spaces.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(RunFolderError, match=r"spaces\.json cannot be read"):
        load_policy(run, env=SavedForaging, device="cpu")
