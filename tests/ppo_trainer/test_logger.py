"""Output of a run: records, events, curves, progress."""

import json
import math

import pytest
from support.trainer_runs import small_config
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from ppo_trainer.machine.stopwatch import Stopwatch
from ppo_trainer.reporting.progress import RunProgress
from ppo_trainer.reporting.recent_episodes import RecentEpisodes
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.logger import RunLogger
from ppo_trainer.runs.results import read_metrics
from ppo_trainer.training.curve import draw_curve


@pytest.fixture
def run(tmp_path):
    config = small_config(run_dir=str(tmp_path), run_name="run")
    return RunFolder.new(config).publish(config)


def write(run, updates, after=0):
    with RunLogger(run, small_config(), after) as log:
        for update in updates:
            log.write(update, 24 * update, {"loss": update / 10, "win": 0.5})


def updates(run):
    return [record["update"] for record in read_metrics(run)]


def test_a_record_is_one_line_with_update_and_steps(run):
    write(run, [1, 2])
    lines = run.metrics_file.read_text().splitlines()
    assert json.loads(lines[1]) == {"update": 2, "steps": 48, "loss": 0.2, "win": 0.5}
    assert updates(run) == [1, 2]


def test_a_record_is_on_disk_as_soon_as_it_is_written(run):
    log = RunLogger(run, small_config(), 0)
    log.write(1, 24, {"loss": 1.0})
    assert updates(run) == [1]
    log.__exit__()


def test_what_is_not_finite_is_left_out(run):
    with RunLogger(run, small_config(), 0) as log:
        log.write(1, 24, {"a": math.nan, "b": math.inf, "c": 3.0})
    assert read_metrics(run) == [{"update": 1, "steps": 24, "c": 3.0}]


def test_a_run_without_records_has_none(run):
    assert read_metrics(run) == []


def test_tensorboard_shows_a_resumed_run_without_the_dropped_records(run):
    write(run, [1, 2, 3, 4])
    write(run, [3, 4, 5], after=2)
    board = EventAccumulator(str(run.path)).Reload()
    assert set(board.Tags()["scalars"]) == {"loss", "win"}
    assert [event.step for event in board.Scalars("loss")] == [24, 48, 72, 96, 120]
    values = [event.value for event in board.Scalars("loss")]
    assert values == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])


def test_the_curve_is_a_picture_of_the_records(run):
    assert draw_curve(run) is None
    assert not run.curve_file.exists()
    write(run, [1, 2, 3])
    assert draw_curve(run) == run.curve_file
    assert run.curve_file.read_bytes().startswith(b"\x89PNG")


def test_a_curve_of_a_single_record_is_drawn(run):
    write(run, [1])
    assert draw_curve(run) == run.curve_file


def test_without_a_terminal_progress_is_plain_lines(capsys):
    with RunProgress(0, 1000, RecentEpisodes(4)) as progress:
        for steps in range(10, 1001, 10):
            progress.show(steps, {"episodic_reward": 0.25, "policy/entropy": math.nan})
    lines = capsys.readouterr().out.splitlines()
    assert 15 <= len(lines) <= 25, "a hundred updates, some twenty lines"
    assert "1,000 / 1,000 steps" in lines[-1]
    assert "0:00 left" in lines[-1]
    assert "steps/s" in lines[-1]
    assert "reward 0.250" in lines[-1]
    assert "entropy" not in lines[-1]
    assert not any("\x1b" in line or "\r" in line for line in lines)


def test_the_speed_is_that_of_recent_updates(capsys, monkeypatch):
    # The first update takes 50 s, as it compiles; then 100 steps take 1 s each, at last 10 s.
    times = iter([50.0, *range(51, 101), *range(110, 2000, 10)])
    monkeypatch.setattr("ppo_trainer.reporting.progress.time.perf_counter", lambda: next(times))
    with RunProgress(0, 100_000, RecentEpisodes(4)) as progress:
        for steps in range(100, 20_001, 100):
            progress.show(steps, {})
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.strip() == "100 / 100,000 steps", "nothing is known yet"
    # 5,100 steps after 100 s; one line in 50.
    assert "5,100 / 100,000 steps  100 steps/s  15:49 left" in lines[0]
    assert "15,100 / 100,000 steps  10 steps/s  2:21:30 left" in lines[2], "100 updates at 10 s"


def test_progress_of_a_resumed_run_starts_where_it_was(capsys):
    with RunProgress(900, 1000, RecentEpisodes(4)) as progress:
        progress.show(910, {"win": 0.75})
        progress.show(1000, {})
    lines = capsys.readouterr().out.splitlines()
    assert "910 / 1,000 steps" in lines[0]
    assert "win 0.750" in lines[1], "the last known value stays"


def test_recent_episodes_outweigh_the_short_ones_that_end_first():
    recent = RecentEpisodes(60)  # two episodes for each: 120
    assert recent.add({"episodes": 30.0, "episodic_reward": 1.0}) == {"episodic_reward": 1.0}
    assert recent.add({"episodes": 90.0, "episodic_reward": 5.0, "loss/value": 3.0}) == {
        "episodic_reward": 4.0  # (30 * 1 + 90 * 5) / 120
    }
    assert recent.add({"episodes": 0.0}) == {"episodic_reward": 4.0}
    # Now 210 episodes; without the first update 180, without the second 120 and no fewer.
    assert recent.add({"episodes": 90.0, "episodic_reward": 1.0})["episodic_reward"] == 3.0
    assert recent.add({"episodes": 500.0, "episodic_reward": 2.0})["episodic_reward"] == 2.0


def test_a_resumed_run_goes_on_with_the_episodes_before(run):
    config = small_config()
    with RunLogger(run, config, 0) as log:
        log.write(1, 24, {"episodes": 90.0, "win": 1.0})
        log.write(2, 48, {"episodes": 90.0, "win": 0.0})
    with RunLogger(run, config, 1) as log:
        assert log.recent.add({"episodes": 30.0, "win": 0.0}) == {"win": 0.75}


def test_the_stopwatch_adds_up_by_phase_and_starts_anew():
    clock = Stopwatch()
    for _ in range(2):
        with clock("env"):
            pass
    with pytest.raises(KeyError), clock("failed"):
        raise KeyError
    taken = clock.take()
    assert set(taken) == {"time/env", "time/failed"}
    assert all(seconds >= 0 for seconds in taken.values())
    assert clock.take() == {}
