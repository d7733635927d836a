"""An environment's own metrics on the screen, as curves and in tables."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.trainer_envs import Truncated
from support.trainer_runs import small_config

from entity_env.errors import SettingError
from ppo_trainer import EvalConfig, TrainConfig, resume, train
from ppo_trainer.config import config_from_dict
from ppo_trainer.evaluate import main as evaluate
from ppo_trainer.reporting.evaluation import Evaluation, table
from ppo_trainer.reporting.progress import RunProgress
from ppo_trainer.reporting.recent_episodes import RecentEpisodes
from ppo_trainer.reporting.shown_metrics import own_metrics, shown_metrics, unknown_metrics
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.training.curve import draw_curve, panels


class Fueled(Truncated):
    """Burns its fuel; has a metric that never changes, and one with a name that is ours."""

    def reset(self):
        self.fuel = 10.0
        return super().reset()

    def observe(self, step):
        self.fuel -= self.rng.random()
        observation = super().observe(step)
        observation.metrics = {"fuel": self.fuel}
        if observation.done:
            observation.metrics |= {"lives": 3.0, "policy/temper": self.fuel}
        return observation


def record(steps, **metrics):
    return {"update": steps, "steps": steps, "episodes": 200.0, **metrics}


# --------------------------------------------------------------------------------- which ones


def test_derived_numbers_are_shown_only_where_asked_for():
    own = ["fuel", "fuel.max", "fuel.mean", "loss.mean", "water", "win.mean"]
    # Nothing is called loss: whoever calls a metric loss.mean means it.
    assert shown_metrics(own, None) == ["fuel", "loss.mean", "water"]
    assert shown_metrics(own, ["water", "fuel.max", "air"]) == ["water", "fuel.max"]
    assert shown_metrics(own, []) == []
    assert unknown_metrics(own, ["fuel.max", "win"]) is None
    assert unknown_metrics(own, None) is None
    said = unknown_metrics(own, ["wate"])
    assert said is not None
    assert "no episode had wate" in said
    assert "did you mean 'water'?" in said


def test_what_is_ours_is_not_the_environments_own():
    names = ["update", "steps", "episodes", "entities_per_frame", "win", "episodic_reward", "fuel"]
    names += ["policy/kl", "loss/value", "time/env", "eval/fuel", "env/episodes", "episodic_length"]
    assert own_metrics(names) == ["fuel", "env/episodes"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, None), ("fuel", ("fuel",)), (["a", "b.max"], ("a", "b.max")), ([], ())],
)
def test_the_setting_takes_one_name_or_several(value, expected):
    config = config_from_dict({"shown_metrics": value})
    assert config.shown_metrics == TrainConfig(shown_metrics=value).shown_metrics == expected


@pytest.mark.parametrize("value", [3, ["a", 3], {"a": 1}, True])
def test_the_setting_takes_nothing_else(value):
    with pytest.raises(SettingError, match="shown_metrics"):
        config_from_dict({"shown_metrics": value})


# ---------------------------------------------------------------------------------- the screen


def lines_of(capsys, metrics, shown=None):
    with RunProgress(0, 100, RecentEpisodes(4), shown) as progress:
        progress.show(100, metrics)
    return capsys.readouterr().out


def test_the_screen_shows_the_environments_own_metrics(capsys):
    metrics = {"episodic_reward": 1.0, "fuel": 12345.678, "fuel.max": 3.0, "win": 0.5}
    line = lines_of(capsys, metrics | {"policy/kl": 0.25, "entities_per_frame": 4.0})
    assert line.strip().endswith("reward 1.000  win 0.500  fuel 1.235e+04")
    assert "fuel.max 3" in lines_of(capsys, metrics, ["fuel.max"])
    many = {f"metric{i}": float(i) for i in range(9)}
    line = lines_of(capsys, many)
    assert "metric4 4  ... 4 more" in line
    assert "metric5" not in line
    assert "metric8 8" in lines_of(capsys, many, list(many)), "all that were asked for"


# ---------------------------------------------------------------------------------- the curves


def test_there_is_a_panel_for_each_metric_that_some_record_has():
    records = [
        record(10, fuel=1.0, **{"fuel.max": 5.0, "policy/kl": 0.1, "loss/value": 3.0}),
        record(20, fuel=2.0, win=0.5, **{"policy/kl": 0.2, "eval/fuel": 7.0}),
    ]
    win, fuel, kl = panels(records, rows=4)
    assert (win.name, fuel.name, kl.label) == ("win", "fuel", "KL divergence (nats)")
    assert win.points == [(20, 0.5)]
    # Each update ends more episodes than a mean is taken over.
    assert fuel.points == [(10, 1.0), (20, 2.0)]
    assert fuel.evaluated == [(20, 7.0)]
    assert kl.evaluated == []
    names = [panel.name for panel in panels(records, rows=4, wanted=["fuel.max"])]
    assert names == ["win", "fuel.max", "policy/kl"]


@pytest.mark.parametrize(
    ("values", "constant"),
    [
        ([3.0, 3.0, 3.0], True),
        ([0.0, 0.0], True),
        ([1e6, 1e6 + 1e-6], True),
        ([0.0, 1e-12], False),
        ([3.0, 3.1], False),
        ([3.0], False),
    ],
)
def test_a_panel_is_constant_if_several_values_are_one(values, constant):
    records = [record(10 * i, fuel=value) for i, value in enumerate(values, 1)]
    (panel,) = panels(records, rows=4)
    assert panel.is_constant == constant


def drawn(run, monkeypatch):
    """The titles of the panels of curve.png, and of the whole."""
    from matplotlib.figure import Figure

    kept = []
    save = Figure.savefig

    def spy(self, *args, **kwargs):
        kept.append(self)
        return save(self, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", spy)
    assert draw_curve(RunFolder.open(run)) == run / "curve.png"
    (figure,) = kept
    return [axes.get_title() for axes in figure.axes], figure.get_suptitle()


def test_what_never_changes_has_no_panel_but_a_word(tmp_path, monkeypatch, capsys):
    config = small_config(run_dir=str(tmp_path), eval=EvalConfig(episodes=3, every=3))
    run = train(config, env=Fueled).run
    said = capsys.readouterr().out
    titles, above = drawn(run, monkeypatch)
    # Every episode has 3 steps and a reward of 1 + 2 + 3.
    assert "episodic reward 6, episode length (steps) 3" in above
    assert "lives 3" in above
    assert titles[:2] == ["env/policy/temper", "fuel (dots: greedy evaluation)"]
    assert not {"lives", "episodic reward", "fuel.max", "win rate"} & set(titles)
    lines = said.splitlines()
    assert any("fuel" in line and "lives 3" in line and "reward 6.000" in line for line in lines)
    assert "fuel.max" not in said
    facts = json.loads((run / "evaluation.json").read_text())
    assert facts["players"][0]["lives"]["mean"] == 3.0
    assert facts["players"][0]["fuel.max"]["count"] == 3, "for programs there is all of it"


def test_a_run_in_which_nothing_changes_has_a_picture_without_panels(tmp_path, monkeypatch):
    config = small_config(run_dir=str(tmp_path))
    run = RunFolder.new(config).publish(config)
    lines = [json.dumps(record(steps, win=1.0)) for steps in (10, 20)]
    run.metrics_file.write_text("\n".join(lines) + "\n")
    assert drawn(run.path, monkeypatch) == ([], f"{run.path.name}\nalways the same: win rate 1")


# ---------------------------------------------------------------------------------- the tables


def evaluation(player, **metrics):
    numbers = {"episodic_reward": [1, 2], "episodic_length": [3, 4], **metrics}
    return Evaluation(player, {name: np.array(own, float) for name, own in numbers.items()})


def test_own_metrics_stand_below_and_line_up():
    derived = {"fuel.max": [7, 9]}
    one = evaluation("agent, greedy", fuel=[1, 3], tons=[1000, 3000], water=[150, 250], **derived)
    other = evaluation("random play", fuel=[5, 5], air=[1, 0])
    first, second, third = table([one, other]).split("\n\n")
    assert "reward" in first
    assert "fuel" not in first
    head, mine, others = second.splitlines()
    assert head.split() == ["95%", "intervals", "fuel", "tons", "water"]
    # 1 and 3: deviation sqrt(2), half 1.96 * sqrt(2) / sqrt(2).
    assert "2.000 (0.040 to 3.960)" in mine
    assert "2000 (40 to 3960)" in mine
    assert "200.00 (102.00 to 298.00)" in mine
    assert "5.000 (5.000 to 5.000)" in others
    assert others.split()[-1] == "-"
    assert len({len(line) for line in (head, mine, others)}) == 1
    assert third.splitlines()[0].split() == ["95%", "intervals", "air"]
    only = table([one, other], ["fuel.max"]).split("\n\n")[1]
    assert "8.000 (6.040 to 9.960)" in only
    assert "tons" not in only
    assert "did you mean 'fuel'" in table([one, other], ["fule"])
    assert table([one, other], []).count("\n\n") == 0


def test_a_metric_that_is_called_as_one_of_our_facts_is_told_apart():
    result = evaluation("agent", **{"wanted": [3, 5]})
    assert result.summary()["env/wanted"]["mean"] == 4.0
    assert "wanted" in table([result])


def test_the_command_shows_what_was_asked_for_and_a_resumed_run_goes_on_with_it(tmp_path, capsys):
    config = small_config(run_dir=str(tmp_path), shown_metrics=["fuel.max"], total_timesteps=24)
    run = train(config, env=Fueled).run
    capsys.readouterr()
    evaluate([str(run), "--episodes", "2"])
    said = capsys.readouterr().out
    assert "fuel.max" in said
    assert "lives" not in said
    evaluate([str(run), "--episodes", "2", "--metric", "lives", "--metric", "fuel.min"])
    assert capsys.readouterr().out.split("\n\n")[1].split()[2:4] == ["lives", "fuel.min"]
    resume(run, env=Fueled, total_timesteps=48)
    assert "fuel.max" in capsys.readouterr().out
