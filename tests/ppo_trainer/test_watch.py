"""Watching a run: every moment of an episode, the last one included, as text and as a video."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest
from PIL import Image

from entity_env import (
    Entity,
    Environment,
    GlobalCategoricalActionMask,
    GlobalCategoricalActionSpace,
    Observation,
    ObsSpace,
)
from entity_env.drawing import add_caption
from entity_env.errors import EnvironmentFailedError, RecordingError, RunFolderError, SettingError
from entity_env.hints import ViewerHints
from entity_env.wrappers import TimeLimit
from ppo_trainer import EvalConfig, NetConfig, PPOConfig, RolloutConfig, TrainConfig, train
from ppo_trainer.evaluate import main as evaluate_main
from ppo_trainer.evaluation.steps import play_run
from ppo_trainer.evaluation.video import write_video
from ppo_trainer.runs.load_run import load_policy
from ppo_trainer.watch import film, main, watch


class Countdown(Environment):
    """Three steps, then the end; a picture whose brightness is the number of steps left."""

    def obs_space(self):
        return ObsSpace(global_features=["left"], entities={"Clock": Entity(["left"])})

    def action_space(self):
        return {"Press": GlobalCategoricalActionSpace(["left", "right"])}

    def reset(self):
        self.left = 3
        return self.observe()

    def act(self, actions):
        self.left -= 1
        return self.observe()

    def observe(self):
        return Observation(
            global_features=[self.left],
            features={"Clock": [[self.left]]},
            ids={"Clock": ["tick"]},
            actions={"Press": GlobalCategoricalActionMask()},
            reward=1.0,
            done=self.left == 0,
        )


class DrawnCountdown(Countdown):
    def observe(self):
        observation = super().observe()
        observation.metrics = {"left_over": 0.5} if self.left == 0 else {}
        return observation

    def render(self, **kwargs):
        return np.full((9, 7, 3), 80 * self.left, np.uint8)


def tiny_run(folder, env):
    config = TrainConfig(
        total_timesteps=16,
        run_dir=str(folder),
        rollout=RolloutConfig(num_envs=4, steps=4),
        ppo=PPOConfig(epochs=1, minibatch_size=16),
        net=NetConfig(dim=8, layers=1, heads=1),
        eval=EvalConfig(episodes=0),
    )
    return train(config, env=env).run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tiny_run(tmp_path_factory.mktemp("runs"), DrawnCountdown)


def test_an_episode_is_shown_from_its_start_to_its_last_state(run):
    loaded = load_policy(run, env=DrawnCountdown)
    steps = list(play_run(loaded, episodes=2, greedy=False, draw=True))
    assert [step.step for step in steps] == [0, 1, 2, 3] * 2
    assert [step.done for step in steps] == [False, False, False, True] * 2
    # The reward of reset does not count; each of the three steps pays 1.
    assert [step.total for step in steps] == [0.0, 1.0, 2.0, 3.0] * 2
    brightness = [int(step.picture[0, 0, 0]) for step in steps]
    assert brightness == [240, 160, 80, 0] * 2


def test_without_a_text_of_its_own_an_environment_is_shown_as_a_table(run, capsys):
    watch(run, env=DrawnCountdown, episodes=1)
    text = capsys.readouterr().out
    assert "episode 1, step 0, reward 0\n  left 3\n  #  Clock  left\n  0  tick      3\n" in text
    assert "episode 1, step 3, reward 3   the end" in text


def test_a_gif_has_a_frame_for_each_step_and_holds_the_end(run, tmp_path):
    path = film(
        run, tmp_path / "new" / "game.gif", env=DrawnCountdown, episodes=1, fps=4, captions=False
    )
    with Image.open(path) as image:
        # Equal frames are stored once, with their durations added: 3 steps of 250 ms, 1 s of end.
        durations = []
        for index in range(image.n_frames):
            image.seek(index)
            durations.append(image.info["duration"])
        assert image.size == (7, 9)
    assert sum(durations) == 3 * 250 + 4 * 250


class GrowingCountdown(DrawnCountdown):
    """Its pictures are wide at first, and high at the end."""

    def render(self, **kwargs):
        return np.zeros((6 + 2 * (3 - self.left), 4 + self.left, 3), np.uint8)


def test_pictures_of_different_sizes_are_put_on_a_white_ground(tmp_path):
    run = tiny_run(tmp_path / "runs", GrowingCountdown)
    path = film(run, tmp_path / "game.gif", env=GrowingCountdown, episodes=1, captions=False)
    with Image.open(path) as image:
        assert image.size == (7, 12)  # 4 + 3 wide, 6 + 2 * 3 high
        for left in (3, 2, 1, 0):
            image.seek(3 - left)
            dark = np.array(image.convert("L")) < 128
            assert dark[: 12 - 2 * left, : 4 + left].all()
            assert dark.sum() == (12 - 2 * left) * (4 + left)


def test_captions_say_what_is_chosen_and_how_it_ends(run, tmp_path, monkeypatch):
    written = []

    def spy(picture, lines, count):
        written.append((list(lines), count))
        return add_caption(picture, lines, count)

    monkeypatch.setattr("ppo_trainer.evaluation.video.add_caption", spy)
    path = film(run, tmp_path / "game.gif", env=DrawnCountdown, episodes=1)
    choices = {
        step.choices[0]
        for step in play_run(load_policy(run), episodes=9, greedy=False)
        if not step.done
    }
    assert choices == {"Press: left", "Press: right"}
    assert [lines[0] for lines, _ in written] == [
        f"episode 1, step {step}, reward {step}" for step in range(4)
    ]
    assert {lines[1] for lines, _ in written[:3]} <= choices
    assert written[3][0][1:] == ["the end, left_over 0.5"]
    assert {count for _, count in written} == {2}, "pictures of one size"
    with Image.open(path) as image:
        assert image.size == (280, 9 * 40 + 48)


def test_the_terminal_says_what_is_chosen(run, capsys):
    main([str(run), "--episodes", "1", "--greedy"])
    first, *_, last = capsys.readouterr().out.strip().split("\n\n")
    head, *state, choice = first.splitlines()
    assert head == "episode 1, step 0, reward 0"
    assert state[0] == "  left 3"
    assert choice in ("  Press: left", "  Press: right")
    assert last.startswith("episode 1, step 3, reward 3   the end, left_over 0.5\n")
    assert "Press" not in last, "nothing is chosen any more"


def test_the_newest_run_is_watched_where_none_is_named(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for command in (main, evaluate_main):
        with pytest.raises(RunFolderError, match="there is no run in"):
            command([])
    (tmp_path / "runs").mkdir()
    for name, begun in (("b", 1), ("a", 3), ("c", 2)):
        shutil.copytree(run, tmp_path / "runs" / name)
        os.utime(tmp_path / "runs" / name / "config.yaml", (begun, begun))
    (tmp_path / "runs" / ".draft").mkdir()
    (tmp_path / "runs" / ".draft" / "config.yaml").write_text("")
    main(["--fps", "1000", "--trust"])
    assert "run folder: runs/a\n" in capsys.readouterr().out


def test_an_environment_without_schedules_writes_none(run, tmp_path):
    with pytest.raises(SettingError, match="DrawnCountdown has no schedule"):
        watch(run, DrawnCountdown, csv=tmp_path / "plan.csv")


def test_an_mp4_can_have_odd_sizes(run, tmp_path):
    path = film(run, tmp_path / "game.mp4", env=DrawnCountdown, episodes=1)
    assert path.stat().st_size > 500


class Walking(Countdown):
    """Nothing but places: a mark in the corner, and a walker that ends far away, further down."""

    def obs_space(self):
        return ObsSpace(
            global_features=["left"],
            entities={"Mark": Entity(["x", "y"]), "Man": Entity(["x", "y"])},
        )

    def observe(self):
        observation = super().observe()
        observation.features = {"Mark": [[0, 0]], "Man": [[10 * (3 - self.left), 5]]}
        observation.ids = {}
        return observation

    def viewer_hints(self):
        return ViewerHints(y_axis="down")


def test_an_environment_without_pictures_is_drawn_and_the_view_stays(tmp_path):
    run = tiny_run(tmp_path, Walking)
    path = film(run, tmp_path / "game.gif", env=Walking, episodes=1)
    marks, men = [], []
    with Image.open(path) as image:
        assert image.size == (580, 400 + 48)  # two lines of text below
        assert image.n_frames == 4
        for index in range(4):
            image.seek(index)
            plane = np.array(image.convert("RGB")).astype(int)[:, :400]
            for places, color in ((marks, (0, 114, 178)), (men, (213, 94, 0))):
                near = np.abs(plane - color).max(axis=2) < 20
                places.append(np.argwhere(near).mean(axis=0).round().tolist())
    assert marks == [marks[0]] * 4
    assert all(down > marks[0][0] + 50 for down, _ in men), "y = 5 is below y = 0"
    across = np.diff([x for _, x in men])
    # The walker takes steps of one length, to the right.
    assert across.min() > 50
    assert np.ptp(across) <= 2


@pytest.mark.parametrize(
    ("pictures", "name", "message"),
    [
        ([], "a.gif", "at least one picture"),
        ([np.zeros((4, 4, 3), np.uint8), np.zeros((4, 5, 3), np.uint8)], "a.gif", "one size"),
        ([np.zeros((4, 4), np.uint8)], "a.gif", r"\(H, W, 3\)"),
        ([np.zeros((4, 4, 3))], "a.gif", "float64"),
        ([np.zeros((4, 4, 3), np.uint8)], "a.avi", "'.gif', '.mp4'"),
        ([np.zeros((4, 4, 3), np.uint8)], "taken/a.gif", "cannot be written"),
    ],
)
def test_bad_videos_are_explained(tmp_path, pictures, name, message):
    (tmp_path / "taken").write_text("a file where a folder should be")
    with pytest.raises(RecordingError, match=message):
        write_video(tmp_path / name, pictures, fps=4)


def test_the_command_line_refuses_a_speed_of_zero(run, capsys):
    with pytest.raises(SystemExit):
        main([str(run), "--fps", "0"])
    assert "--fps must be more than 0" in capsys.readouterr().err
    for fps in ("inf", "1e9", "nan"):
        with pytest.raises(SystemExit):
            main([str(run), "--fps", fps])
        assert "at most 1000" in capsys.readouterr().err


class Fails(Countdown):
    """Works in training, and not where it is watched."""

    where = ""

    def act(self, actions):
        if self.where == "act":
            raise OSError("out of order")
        return super().act(actions)

    def render_text(self):
        if self.where == "render_text":
            raise OSError("out of order")
        return super().render_text()


@pytest.mark.parametrize("where", ["act", "render_text"])
def test_what_an_environment_raises_is_said_to_be_its_own(tmp_path, monkeypatch, where):
    run = tiny_run(tmp_path, Fails)
    monkeypatch.setattr(Fails, "where", where)
    with pytest.raises(EnvironmentFailedError, match=f"raised OSError in {where}: out of order"):
        watch(run)


def test_an_episode_that_a_limit_ends_is_not_called_over(tmp_path, capsys):
    run = tiny_run(tmp_path, cut_off)
    watch(run, env=cut_off, episodes=1)
    said = capsys.readouterr().out
    assert "step 2, reward 2   cut off by a limit" in said
    assert "the end" not in said


def cut_off():
    return TimeLimit(Countdown(), 2)
