"""Replays: the same games again, and what damaged ones say."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.tiny_envs import assert_same_obs

pytest.importorskip("numba")  # the games that are played

from entity_env import ListEnv, SeatRows
from entity_env.errors import RecordingError, SettingError, UnknownEnvironmentError
from entity_env.play import random_policy
from entity_env.recording import DamageWarning, RecordReplay, Replay
from entity_env.recording.replays import make_rows
from entity_env.registry import resolve
from entity_env.replay import main
from entity_env.runner import main as player


def record(path, env, rows, settings, steps, seed=5):
    """Rows of an environment played at random, and what was seen."""
    seen = []
    made = make_rows(resolve(env), settings, rows, seed)
    policy = random_policy(seed=1)
    with RecordReplay(made, path, env, settings, seed) as played:
        obs = played.reset()
        for _ in range(steps):
            seen.append(obs)
            obs = played.act(policy(obs))
        seen.append(obs)
    return seen


GAMES = {
    "compiled": ("minesweeper", 3, {"width": 4, "height": 4}),
    "single": ("multi_snake", 2, {"board_size": 5, "max_length": 5}),
    "seats": ("tic_tac_toe", 4, {}),
    "selecting": ("multi_armed_bandit", 2, {}),
    "continuous": ("support.continuous_envs.Aim", 2, {}),
}


@pytest.mark.parametrize("name", GAMES)
def test_the_same_games_are_played_again(tmp_path, name):
    env, rows, settings = GAMES[name]
    path = tmp_path / "games.replay"
    seen = record(path, env, rows, settings, steps=25)
    moments = list(Replay.read(path).play(trust=True))
    assert len(moments) == len(seen) == 26
    for moment, obs in zip(moments, seen, strict=True):
        assert moment.obs.rows.tolist() == obs.rows.tolist()
        assert np.array_equal(moment.obs.reward, obs.reward)
        for entity, own in obs.features.items():
            assert np.array_equal(moment.obs.features[entity].as_array(), own.as_array())
    # A line for the settings, and one for each step.
    assert len(path.read_text().splitlines()) == 1 + 25
    decisions = sum(len(step.choices) for step in Replay.read(path).steps)
    assert decisions == sum(obs.num_frames for obs in seen[:-1])


def test_a_kill_loses_the_step_in_hand_at_most(tmp_path):
    path = tmp_path / "games.replay"
    record(path, "minesweeper", 2, {}, steps=8)
    data = path.read_bytes()
    last = data.rstrip(b"\n").rfind(b"\n") + 1  # where the sum of the last step begins
    for end in range(len(data) - 1, last - 1, -1):  # cut anywhere: within it, or just before
        path.write_bytes(data[:end])
        assert len(Replay.read(path).steps) == 7
        assert len(list(Replay.read(path).play())) == 8
    path.write_bytes(data)
    assert len(Replay.read(path).steps) == 8


def test_it_is_written_while_it_is_played(tmp_path):
    path = tmp_path / "games.replay"
    rows = make_rows(resolve("minesweeper"), {}, 2, 0)
    played = RecordReplay(rows, path, "minesweeper", {}, 0)
    policy, obs = random_policy(0), played.reset()
    for step in range(3):
        obs = played.act(policy(obs))
        assert len(Replay.read(path).steps) == step + 1  # not closed, and already there
    played.close()


def test_another_game_is_noticed(tmp_path):
    path = tmp_path / "games.replay"
    record(path, "minesweeper", 1, {"width": 4}, steps=6)
    lines = path.read_text().splitlines()
    head = json.loads(lines[0])
    path.write_text("\n".join([json.dumps({**head, "seed": 6}), *lines[1:]]) + "\n")
    with pytest.raises(RecordingError, match="recorded one at the beginning"):
        list(Replay.read(path).play())
    last = json.loads(lines[-1])
    path.write_text("\n".join([*lines[:-1], json.dumps({**last, "checksum": 1})]) + "\n")
    with pytest.raises(RecordingError, match="recorded one from step 5 on"):
        list(Replay.read(path).play())


def change(lines, at, **values):
    own = json.loads(lines[at])
    return [*lines[:at], json.dumps({**own, **values}), *lines[at + 1 :]]


def choose(lines, choices):
    return change(lines, 1, choices=choices)


DAMAGES = {
    "is empty": lambda lines: [],
    "is not a replay": lambda lines: ['{"a": 1}', *lines[1:]],
    "written by another version": lambda lines: change(lines, 0, version=2),
    "damaged at line 1": lambda lines: change(lines, 0, rows="two"),
    "cannot be started": lambda lines: change(lines, 0, state=[1, {}]),
    "rows, of which only 2 ever act": lambda lines: change(lines, 0, rows=10**13),
    "other rows act in the replay at step 0": lambda lines: choose(lines, {"1": {"Mark": [0]}}),
    "a wrong number of choices at step 0": lambda lines: choose(lines, {"0": {"Put": [0]}}),
    "not possible at step 0": lambda lines: choose(lines, {"0": {"Mark": [10**6]}}),
}


@pytest.mark.parametrize("message", DAMAGES)
def test_damage_is_named(tmp_path, message, capsys):
    path = tmp_path / "games.replay"
    record(path, "tic_tac_toe", 2, {}, steps=4)
    lines = path.read_text().splitlines()
    path.write_text("".join(f"{line}\n" for line in DAMAGES[message](lines)))
    with pytest.raises(RecordingError, match=message):
        list(Replay.read(path).play())
    assert main([str(path)]) == 1
    assert "RecordingError" in capsys.readouterr().err


def test_rows_that_have_no_room_are_an_error_of_the_replay(tmp_path, monkeypatch):
    def no_room(*_):
        raise MemoryError

    record(tmp_path / "games.replay", "tic_tac_toe", 2, {}, steps=1)
    monkeypatch.setattr("entity_env.recording.replays.make_rows", no_room)
    with pytest.raises(RecordingError, match="cannot be made: MemoryError"):
        list(Replay.read(tmp_path / "games.replay").play())


LINES = {
    "not JSON": lambda line: "{",
    "no object": lambda line: "[1]",
    "another step": lambda line: line.replace('"step":4', '"step":5'),
    "no checksum": lambda line: line.replace("checksum", "checks"),
    "no rows": lambda line: json.dumps(json.loads(line) | {"choices": []}),
    "a row of another name": lambda line: json.dumps(json.loads(line) | {"choices": {"a": {}}}),
    "no lists": lambda line: json.dumps(json.loads(line) | {"choices": {"0": {"Mark": 3}}}),
    "more numbers than allowed": lambda line: f"[{'1,' * (1 << 20)}1]",
}


@pytest.mark.parametrize("damage", LINES)
def test_the_steps_before_a_damaged_line_are_played(damage, tmp_path, capsys):
    path = tmp_path / "games.replay"
    record(path, "tic_tac_toe", 2, {}, steps=6)
    lines = path.read_text().splitlines()
    path.write_text(
        "".join(f"{line}\n" for line in [*lines[:5], LINES[damage](lines[5]), lines[6]])
    )
    with pytest.warns(DamageWarning, match="damaged at line 6.*read: 4 steps before it"):
        assert len(list(Replay.read(path).play())) == 5
    with pytest.warns(DamageWarning):
        assert main([str(path)]) == 0
    path.write_bytes(b"\n" * 1000)
    with pytest.raises(RecordingError, match="damaged at line 1"):
        Replay.read(path)


@pytest.mark.parametrize("name", ["compiled", "single"])
def test_rows_that_go_on_from_a_saved_state_or_another_seed_are_played_again(tmp_path, name):
    env, count, settings = GAMES[name]
    policy = random_policy(seed=1)
    with make_rows(resolve(env), settings, count, 5) as rows:
        obs = rows.reset()
        for _ in range(3):
            obs = rows.act(policy(obs))
        state = rows.get_state()
    for begin in (lambda rows: rows.set_state(state), lambda rows: rows.reset(7)):
        path, seen = tmp_path / f"{len(list(tmp_path.iterdir()))}.replay", []
        made = make_rows(resolve(env), settings, count, 5)
        with RecordReplay(made, path, env, settings, 5) as rows:
            seen.append(begin(rows))
            for _ in range(12):
                seen.append(rows.act(policy(seen[-1])))
            with pytest.raises(RecordingError, match="cannot be restarted by set_state"):
                rows.set_state(state)
        moments = list(Replay.read(path).play(trust=True))
        assert len(moments) == 13
        for moment, obs in zip(moments, seen, strict=True):
            assert_same_obs(moment.obs, obs)


def test_what_cannot_be_recorded(tmp_path):
    path = tmp_path / "games.replay"
    rows = make_rows(resolve("minesweeper"), {}, 1, 0)
    with pytest.raises(SettingError, match="the settings of a replay are not JSON"):
        RecordReplay(rows, path, "minesweeper", {"width": object()}, 0)
    with RecordReplay(rows, path, "minesweeper", {}, 0) as played:
        played.reset()
        with pytest.raises(RecordingError, match="cannot be restarted"):
            played.reset(3)
    with pytest.raises(RecordingError, match="already"):
        RecordReplay(make_rows(resolve("minesweeper"), {}, 1, 0), path, "minesweeper")
    with pytest.raises(RecordingError, match="cannot be read"):
        Replay.read(tmp_path / "nothing")


def test_strangers_code_is_not_imported(tmp_path):
    path = tmp_path / "games.replay"
    record(path, "minesweeper", 1, {}, steps=1)
    lines = path.read_text().splitlines()
    path.write_text("\n".join(change(lines, 0, env="no_such.module.Env")) + "\n")
    with pytest.raises(UnknownEnvironmentError, match="is not registered"):
        list(Replay.read(path).play())
    named = change(lines, 0, env="job_shop", settings={"instance": "/etc/passwd"})
    path.write_text("\n".join(named) + "\n")
    with pytest.raises(SettingError, match="names code or files: instance='/etc/passwd'"):
        list(Replay.read(path).play())


def test_the_command_line(tmp_path, capsys):
    path = tmp_path / "games.replay"
    record(path, "tic_tac_toe", 2, {}, steps=12)
    assert main([str(path), "--commands"]) == 0
    out = capsys.readouterr().out
    assert "tic_tac_toe, seed 5, 2 rows, 12 steps" in out
    assert out.count("Mark ") == 12
    assert ": the end" in out
    assert out.endswith("the same games as were recorded\n")
    assert main([str(path), "--row", "7"]) == 1
    assert "0 to 1" in capsys.readouterr().err


def test_rows_of_other_kinds():
    assert isinstance(make_rows(resolve("multi_snake"), {}, 2, 0), ListEnv)
    assert isinstance(make_rows(resolve("tic_tac_toe"), {}, 2, 0), SeatRows)


def test_a_game_that_somebody_types_is_recorded(tmp_path, monkeypatch, capsys):
    path = tmp_path / "mine.replay"
    monkeypatch.setattr("builtins.input", lambda _: "")  # Enter takes what is proposed
    arguments = ["minesweeper", "width=4", "height=4", "nmines=2", "--seed", "3", "--episodes", "3"]
    assert player([*arguments, "--replay", str(path)]) == 0
    assert "3 episodes" in capsys.readouterr().out
    replay = Replay.read(path)
    assert (replay.rows, replay.seed, replay.settings) == (
        0,
        3,
        {"width": 4, "height": 4, "nmines": 2},
    )
    moments = list(replay.play())
    assert sum(bool(moment.obs.done[0]) for moment in moments) == 3
    assert moments[-1].obs.done[0]
    # All steps but the beginnings of the second and the third episode are decisions.
    assert sum(len(step.choices) for step in replay.steps) == len(replay.steps) - 2
    assert player([*arguments, "--replay", str(path)]) == 1
    assert "already" in capsys.readouterr().err


@pytest.mark.parametrize(("game", "seats"), [("tic_tac_toe", "X"), ("leduc_poker", "all")])
def test_games_at_one_table_are_recorded(game, seats, tmp_path, monkeypatch, capsys):
    path = tmp_path / "table.replay"
    monkeypatch.setattr("builtins.input", lambda _: "")
    arguments = [game, "--seats", seats, "--seed", "3", "--episodes", "2", "--replay", str(path)]
    assert player(arguments) == 0
    means = capsys.readouterr().out.rpartition("mean return: ")[2]
    replay = Replay.read(path)
    assert (replay.rows, replay.table, replay.seed) == (0, True, 3)
    returns = sum(moment.obs.reward for moment in replay.play())
    assert [float(word.split()[-1]) for word in means.split(",")] == (returns / 2).tolist()
    assert player(arguments) == 1
    assert "already" in capsys.readouterr().err
