"""``python -m ppo_trainer.evaluate``: other boards, other players, less of it, and for programs."""

import json
from dataclasses import replace

import numpy as np
import pytest
from support.trainer_envs import Truncated
from support.trainer_runs import small_config

from entity_env import CategoricalAction, Observation
from entity_env.errors import EntityEnvError, SettingError
from ppo_trainer import EvalConfig, resume, train
from ppo_trainer.command_line.words import env_changes
from ppo_trainer.config import with_changes
from ppo_trainer.evaluate import evaluate_run, main
from ppo_trainer.reporting.evaluation import Evaluation, left_out
from ppo_trainer.reporting.progress import EvaluationProgress


class Talking(Truncated):
    """Prints what it does, as environments in the making do."""

    def __init__(self, limit=3, bonus=(0, 0)):
        super().__init__(limit)
        self.bonus = bonus

    def reset(self):
        print("resetting")
        return super().reset()


def go_left(observation):
    """A script as the README shows one."""
    assert isinstance(observation, Observation)
    return {"Move": CategoricalAction([None], np.array([0]), ["left", "right"])}


def gets_lost(observation):
    raise KeyError("north")


def says_nothing(observation):
    return None


def leaves_in_its_second_step(observation):
    if observation.features["Robot"][0][0]:
        raise KeyError("south")
    return go_left(observation)


SCRIPT = f"{__name__}.go_left"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    config = small_config(run_dir=str(tmp_path_factory.mktemp("runs")), total_timesteps=24)
    return train(config, env=Talking).run


def players(results):
    return [result.player for result in results]


def printed_json(capsys, *arguments):
    main([*map(str, arguments), "--json"])
    return json.loads(capsys.readouterr().out)


def test_json_is_all_that_stdout_holds_and_says_what_was_played(run, capsys):
    facts = printed_json(capsys, run, "env.limit=5", "--episodes", "3", "--seed", "9")
    assert facts["run"] == run.name
    assert facts["steps"] == 24
    settings = facts["settings"]
    assert settings["env"]["limit"] == 5
    assert settings["env"]["_target_"].endswith("Talking")
    assert (settings["seed"], settings["episodes"], settings["scripted"]) == (9, 3, None)
    assert [player["player"] for player in facts["players"]] == [
        "agent, greedy",
        "agent, sampled",
        "random play",
    ]
    for player in facts["players"]:
        assert (player["episodes"], player["wanted"], player["cut_off"]) == (3, 3, 0)
        assert player["episodic_length"] == {"mean": 5.0, "interval95": [5.0, 5.0], "count": 3}


def test_settings_and_options_come_in_any_order(run, capsys):
    main([str(run), "--episodes", "2", "env.limit=4", "--greedy", "env.bonus=[1,2]"])
    head, line = capsys.readouterr().out.strip().splitlines()[-2:]
    assert line.startswith("agent, greedy")
    assert "4.00 (4.00 to 4.00)" in line
    assert "length" in head


def test_greedy_leaves_out_all_but_the_greedy_agent_and_a_script_that_is_asked_for(run):
    assert players(evaluate_run(run, episodes=2, greedy=True)) == ["agent, greedy"]
    both = evaluate_run(run, episodes=2, greedy=True, scripted=SCRIPT)
    assert players(both) == ["agent, greedy", "scripted player"]


def test_the_agent_draws_at_a_temperature_that_the_table_names(run):
    greedy, cold, _ = evaluate_run(run, episodes=2, temperature=1e-6)
    assert players([greedy, cold]) == ["agent, greedy", "agent, temperature 1e-06"]
    # So cold that the most likely choice is all that is drawn.
    same = greedy.metrics["episodic_reward"], cold.metrics["episodic_reward"]
    assert same[0].tolist() == same[1].tolist()
    with pytest.raises(SettingError, match="temperature"):
        evaluate_run(run, episodes=2, temperature=0.0)


def test_a_script_of_ones_own_plays_beside_the_agent(run, capsys):
    facts = printed_json(capsys, run, "--scripted", SCRIPT, "--episodes", "2")
    assert facts["settings"]["scripted"] == SCRIPT
    script = facts["players"][2]
    assert script["player"] == "scripted player"
    assert script["episodic_reward"]["mean"] == 6.0  # 1 + 2 + 3


def test_a_script_that_fails_later_is_left_out_and_the_exit_code_says_so(run, capsys):
    with pytest.raises(SystemExit) as caught:
        main([str(run), "--scripted", f"{__name__}.leaves_in_its_second_step", "--episodes", "2"])
    assert caught.value.code == 1
    said = capsys.readouterr()
    assert "KeyError: 'south'" in said.err
    assert "left out: the scripted player eval.scripted=" in said.err
    assert "agent, greedy" in said.out
    assert "scripted player" not in said.out


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("env.limits=5", "did you mean 'limit'"),
        ("env.limit", "env.width=8"),
        ("limit=5", "env.<setting>"),
        ("episodes=5", "--episodes"),
        ("env=xor", "not a setting of the environment"),
        ("env.limit=4,5", "several values"),
        ("env.limit=[4", "cannot be read"),
    ],
)
def test_what_is_no_setting_is_explained(run, word, message):
    with pytest.raises(SettingError, match=message.replace("[", r"\[")):
        main([str(run), word])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--episodes", "0"], "number of episodes"),
        (["--episodes", "-1"], "number of episodes"),
        (["--search", "0"], "number of visits"),
        (["--search", "-3"], "number of visits"),
        (["--search", "2"], "rows cannot be searched"),
        (["--against", "random"], "not a game for several players"),
        (["--scripted", "x"], "not a dotted path"),
        (["--scripted", ""], "not a dotted path"),
        (["--scripted", f"{__name__}.gets_lost"], "failed in its first step: KeyError: 'north'"),
        (["--scripted", f"{__name__}.says_nothing"], "did not return actions"),
        (["--scripted", f"{__name__}.go_lef"], "did you mean 'go_left'"),
        (["--scripted", f"{__name__}.Talking"], "is not a scripted player"),
        (["--seed", "-1"], "seed is out of range"),
        (["--seconds", "nan"], "eval.seconds is out of range"),
    ],
)
def test_mistakes_of_the_command_line_are_explained_before_anybody_plays(
    run, words, message, capsys
):
    with pytest.raises(EntityEnvError, match=message):
        main([str(run), *words])
    assert "agent, greedy" not in capsys.readouterr().out
    with pytest.raises(EntityEnvError, match="is not a run folder"):
        main([f"{run}x", *words])


def test_settings_are_read_as_in_a_training():
    words = ["env.width=[4,10]", "env.name=a b", "env.on=true", "env.of.what=null", "env.x=1e3"]
    assert env_changes(words) == {
        "env.width": [4, 10],
        "env.name": "a b",
        "env.on": True,
        "env.of.what": None,
        "env.x": 1000.0,
    }
    config = small_config(env={"_target_": "xor", "of": {"that": 1, "what": 2}, "on": False})
    changed = with_changes(config, {"env.of.what": 3, "env.on": True, "env.new.it": 4, "seed": 5})
    assert changed.env == {
        "_target_": "xor",
        "of": {"that": 1, "what": 3},
        "on": True,
        "new": {"it": 4},
    }
    assert changed.seed == 5
    assert config.env["of"] == {"that": 1, "what": 2}


# ------------------------------------------------------------------------- at the end of a training


def test_a_run_that_is_over_is_evaluated_anew(tmp_path):
    config = small_config(run_dir=str(tmp_path))
    done = train(config, env=Truncated)
    later = resume(done.run, env=Truncated, eval=EvalConfig(episodes=2))
    assert players(later.evaluations) == ["agent, greedy", "agent, sampled", "random play"]
    again = resume(done.run, env=Truncated, eval=EvalConfig(episodes=2))
    tables = [[own.summary() for own in one.evaluations] for one in (later, again)]
    assert tables[0] == tables[1]


def test_the_end_of_a_training_takes_no_longer_than_it_may(tmp_path, capsys):
    own = EvalConfig(episodes=6, seconds=1e-6, scripted=SCRIPT)
    endless = {"_target_": "", "limit": 10**9}
    done = train(small_config(run_dir=str(tmp_path), eval=own, env=endless), env=Truncated)
    # Four rows, of which each has time for a single step; the script has one row.
    assert [result.episodes for result in done.evaluations] == [4, 4, 1, 4]
    assert [result.cut_off for result in done.evaluations] == [4, 4, 1, 4]
    assert {result.mean("episodic_length") for result in done.evaluations} == {1.0}
    said = capsys.readouterr().out
    assert "left out, as eval.seconds=1e-06 were over" in said
    assert "agent, greedy    4 of 6 episodes, all cut off before their end" in said
    assert "scripted player  1 of 6 episodes, all cut off before their end" in said
    facts = json.loads((done.run / "evaluation.json").read_text())
    assert facts["settings"]["seconds"] == 1e-6
    assert facts["settings"]["env"]["limit"] == 10**9
    assert [(p["wanted"], p["episodes"], p["cut_off"]) for p in facts["players"]][2] == (6, 1, 1)


def test_what_is_left_out_is_said_of_those_only_whom_it_concerns():
    lengths = {"episodic_length": np.array([3.0, 4.0])}
    whole = Evaluation("agent, greedy", lengths, wanted=2)
    assert left_out([whole]) == ""
    fewer = replace(whole, player="random play", wanted=1000)
    some = replace(fewer, player="scripted player", cut_off=1)
    assert left_out([whole, fewer, some]).splitlines() == [
        "random play      2 of 1,000 episodes",
        "scripted player  2 of 1,000 episodes, 1 of them cut off before their end",
    ]


# ------------------------------------------------------------------------------------- progress


def test_progress_without_a_terminal_is_sparse_and_on_stderr(capsys):
    now = 0.0
    with EvaluationProgress(["a", "b"], 100, now=lambda: now) as progress:
        for player in ("a", "b"):
            hear = progress.heard(player)
            for played in range(101):
                hear(played)
                now += 0.5
    out, err = capsys.readouterr()
    assert out == ""
    # 50.5 s for each player: after 10 s 20 of 200 episodes have been played, 90 s are left.
    assert err.splitlines() == [
        "a  20 / 100 episodes  1:30 left",
        "a  80 / 100 episodes  1:00 left",
        "b  39 / 100 episodes  0:31 left",
        "b  99 / 100 episodes  0:01 left",
    ]


def test_time_left_is_no_more_than_there_is(capsys):
    now = 11.0
    times = iter([0.0])
    with EvaluationProgress(["a"], 1000, 60.0, now=lambda: next(times, now)) as progress:
        progress.heard("a")(0)
    assert capsys.readouterr().err == "a  0 / 1,000 episodes  0:49 left\n"


def test_a_short_evaluation_shows_nothing_where_there_is_no_terminal(run, capsys):
    evaluate_run(run, episodes=2)
    assert capsys.readouterr().err == ""
