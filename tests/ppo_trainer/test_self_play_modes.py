"""Training against opponents: a pool, stages, named ones; whatever happens, the same run."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace
from typing import get_args, get_type_hints

import numpy as np
import pytest
import torch
from ragged_envs.minesweeper import MineSweeper
from ragged_envs.tic_tac_toe import TicTacToe
from support.seat_games import Secrets
from support.trainer_runs import assert_same, checkpoints, metrics, parameters, small_config

from entity_env.errors import CheckpointError, SettingError, UntrustedRunError
from ppo_trainer import resume, train
from ppo_trainer.agent import load_agent
from ppo_trainer.command_line.configs import recipe
from ppo_trainer.config import (
    CheckpointConfig,
    EvalConfig,
    PPOConfig,
    RolloutConfig,
    SelfPlayConfig,
    config_from_dict,
)
from ppo_trainer.environments import Game
from ppo_trainer.players.network_agent import NetworkAgent
from ppo_trainer.players.opponent_rows import Lineup
from ppo_trainer.players.opponents import opponent_labels
from ppo_trainer.players.self_play import SelfPlay, after_win, probabilities
from ppo_trainer.runs.checkpoint import latest_checkpoint
from ppo_trainer.runs.folder import RunFolder
from ragged_net import NetConfig, RaggedNet

MODES = {
    "pool": SelfPlayConfig(
        mode="pool", past=0.5, every=2, keep=2, choose="quality", opponents=("random",)
    ),
    "stages": SelfPlayConfig(mode="stages", until_win=0.0, until_steps=128),
    "fixed": SelfPlayConfig(mode="fixed", opponents=("random",)),
    "mirror": SelfPlayConfig(team_spirit=0.2, team_spirit_end=0.97, zero_sum=True),
}


def config(tmp_path, selfplay, **changes):
    return small_config(
        **{
            "total_timesteps": 512,
            "rollout": RolloutConfig(num_envs=8, steps=8),
            "ppo": PPOConfig(epochs=1, minibatch_size=32),
            "run_dir": str(tmp_path),
            "eval": EvalConfig(episodes=0),
            "selfplay": selfplay,
            **changes,
        }
    )


def saved(run):
    return json.loads((latest_checkpoint(RunFolder(run)) / "state.json").read_text())


@pytest.mark.parametrize(("mode", "memory"), [("pool", "gru"), ("fixed", "none")])
def test_a_resumed_run_ends_as_if_it_had_not_stopped(tmp_path, mode, memory):
    net = NetConfig(dim=16, layers=1, heads=2, memory=memory)
    settings = config(tmp_path, MODES[mode], net=net)
    whole = train(settings, env=TicTacToe)
    part = train(settings, env=TicTacToe, stop=lambda updates: updates == 3)
    part = resume(part.run, env=TicTacToe, stop=lambda updates: updates == 5)
    rest = resume(part.run, env=TicTacToe)
    assert_same(parameters(whole.net), parameters(rest.net))
    assert metrics(whole.run) == metrics(rest.run)
    facts = [saved(result.run) for result in (whole, rest)]
    assert facts[0]["players"] == facts[1]["players"]
    assert facts[0]["envs"] == facts[1]["envs"]


def test_a_full_pool_goes_on_from_every_checkpoint_that_is_kept(tmp_path):
    """Versions leave the pool, and the disk when no kept checkpoint names them."""
    own = SelfPlayConfig(mode="pool", past=0.9, every=1, keep=1)
    settings = config(
        tmp_path,
        own,
        total_timesteps=10 * 16,
        rollout=RolloutConfig(num_envs=8, steps=2),
        ppo=PPOConfig(epochs=1, minibatch_size=16),
        checkpoint=CheckpointConfig(every=1, keep=3),
    )
    whole = train(settings, env=TicTacToe).run
    facts = [json.loads((own / "state.json").read_text()) for own in checkpoints(whole)]
    needed = {
        name for own in facts for key in ("versions", "playing") for name in own["players"][key]
    }
    assert any(own["players"]["playing"] for own in facts)
    assert {folder.name for folder in (whole / "snapshots").iterdir()} == needed
    for number in range(3):
        run = tmp_path / f"from_{number}"
        shutil.copytree(whole, run)
        for later in checkpoints(run)[number + 1 :]:
            shutil.rmtree(later)
        # As a process that was killed leaves them behind.
        (run / "snapshots" / "step_000000000001").mkdir()
        resume(run, env=TicTacToe)
        assert saved(run) == saved(whole)
        assert {folder.name for folder in (run / "snapshots").iterdir()} == needed


def test_versions_are_bounded_and_can_be_played_with(tmp_path):
    run = train(config(tmp_path, MODES["pool"], total_timesteps=1024), env=TicTacToe).run
    facts = saved(run)
    versions = facts["players"]["versions"]
    assert len(versions) == 2
    kept = {folder.name for folder in (run / "snapshots").iterdir()}
    # Those that left go when no checkpoint that is kept knows them any more.
    assert set(versions) <= kept
    assert len(kept) <= 2 + 2 + 1
    agent = load_agent(run / "snapshots" / versions[0])
    assert agent.act(TicTacToe().reset()["X"])["Mark"].actees
    last = metrics(run)[-1]
    assert last["selfplay/versions"] == 2.0
    # In each update one of them begins games, now this one and now another.
    lines = metrics(run)
    assert any(0.0 <= line.get("win_vs_past", -1.0) <= 1.0 for line in lines)
    # Half of the games have two learners, whose wins and losses cancel out.
    assert any(line.get("win_vs_random", line["win"]) != line["win"] for line in lines)


def test_a_version_is_the_network_as_it_was(tmp_path):
    seen = {}

    def keep(session):
        if session.updates == 2:
            seen.update(parameters(session.net))

    run = train(config(tmp_path, MODES["pool"], total_timesteps=256), env=TicTacToe, callbacks=keep)
    name = sorted(folder.name for folder in (run.run / "snapshots").iterdir())[0]
    agent = load_agent(run.run / "snapshots" / name)
    assert_same(parameters(agent.loaded.net), seen)
    # The network has moved on.
    assert any(
        not tensor.equal(seen[own])
        for own, tensor in run.net.state_dict().items()
        if tensor.is_floating_point()
    )


def test_stages_go_on_to_a_frozen_copy(tmp_path):
    run = train(config(tmp_path, MODES["stages"]), env=TicTacToe).run
    lines = metrics(run)
    stages = [line["selfplay/stage"] for line in lines]
    assert stages == sorted(stages)
    assert stages[0] == 0.0
    assert stages[-1] >= 2.0
    assert "win_vs_random" in lines[0]
    assert "win_vs_stage_1" not in lines[0]
    assert any("win_vs_stage_1" in line for line in lines)
    from ppo_trainer.training.curve import boundaries

    assert len(boundaries(lines)) == int(stages[-1])


def test_fixed_opponents_are_named_ones_only(tmp_path):
    first = train(config(tmp_path, SelfPlayConfig(), total_timesteps=64), env=TicTacToe).run
    names = ("random", str(first))
    run = train(config(tmp_path, SelfPlayConfig(mode="fixed", opponents=names)), env=TicTacToe).run
    last = metrics(run)[-1]
    label = first.name.replace(".", "_")
    assert {n for n in last if n.startswith("win_vs")} == {"win_vs_random", f"win_vs_{label}"}
    # Nobody else plays: what is won is won against these two.
    own = [last["win_vs_random"], last[f"win_vs_{label}"]]
    assert min(own) <= last["win"] <= max(own)


def test_an_opponent_that_disappears_while_the_run_trains_plays_on(tmp_path):
    first = train(config(tmp_path, SelfPlayConfig(), total_timesteps=64), env=TicTacToe).run
    selfplay = SelfPlayConfig(mode="fixed", opponents=(str(first),))
    removed = []

    def remove(session):
        if session.updates == 2:
            shutil.rmtree(first)
            removed.append(first)

    run = train(
        config(tmp_path, selfplay, total_timesteps=256), env=TicTacToe, callbacks=remove
    ).run
    assert removed
    assert metrics(run)[-1]["episodes"] > 0
    with pytest.raises(SettingError, match="there is no opponent"):
        resume(run, env=TicTacToe, total_timesteps=1024)


def test_a_version_that_disappears_is_an_error_that_says_what_to_do(tmp_path):
    run = train(config(tmp_path, MODES["pool"]), env=TicTacToe, stop=lambda u: u == 4).run
    shutil.rmtree(run / "snapshots")
    with pytest.raises(CheckpointError, match=r"earlier version .* does not exist"):
        resume(run, env=TicTacToe)


def test_opponents_that_do_not_exist_or_do_not_fit(tmp_path):
    mines = train(small_config(run_dir=str(tmp_path)), env=MineSweeper).run
    for names, text in (
        (("rando",), "there is no opponent 'rando'"),
        (("runs/nowhere",), "there is no opponent 'runs/nowhere'"),
        (("no_such_package.player",), "'no_such_package.player' cannot be imported"),
        (("ragged_envs.multi_snake.crawl_to_fod",), "did you mean 'crawl_to_food'"),
        ((str(mines),), "plays another game"),
        (("random", "random"), "contains an opponent twice"),
    ):
        for mode in ("fixed", "pool"):
            with pytest.raises(SettingError, match=text):
                train(config(tmp_path, SelfPlayConfig(mode=mode, opponents=names)), env=TicTacToe)
    with pytest.raises(SettingError, match="not a game for several players"):
        train(small_config(run_dir=str(tmp_path), selfplay=MODES["pool"]), env=MineSweeper)
    with pytest.raises(SettingError, match="has no opponents"):
        SelfPlayConfig(opponents=("random",))
    with pytest.raises(SettingError, match="no condition ends a stage"):
        SelfPlayConfig(mode="stages", until_win=0.0)
    with pytest.raises(SettingError, match=r"selfplay.past is out of range"):
        config_from_dict({"selfplay": {"past": 1.5}})
    assert not list(tmp_path.glob(".*"))  # no draft of a run is left behind


def test_another_mode_starts_fresh_games_and_goes_on(tmp_path, capsys):
    run = train(config(tmp_path, SelfPlayConfig()), env=TicTacToe, stop=lambda u: u == 3).run
    for mode in ("pool", "fixed", "mirror"):
        own = MODES[mode] if mode != "mirror" else SelfPlayConfig()
        stop = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["update"] + 1
        resume(run, env=TicTacToe, selfplay=own, stop=lambda u, stop=stop: u == stop)
        assert "its opponents cannot continue where they were" in capsys.readouterr().out


def test_games_of_more_than_two_and_of_secrets(tmp_path):
    run = train(
        config(tmp_path, MODES["fixed"], rollout=RolloutConfig(num_envs=15, steps=8)), env=Secrets
    ).run
    wins = [line["win_vs_random"] for line in metrics(run) if "win_vs_random" in line]
    assert np.mean(wins) == pytest.approx(0.5, abs=0.1)  # about 500 games: 4 deviations


def test_the_command_line_knows_the_modes():
    settings = recipe("tic_tac_toe", "selfplay=pool", "selfplay.choose=quality").selfplay
    assert (settings.mode, settings.past, settings.choose) == ("pool", 0.2, "quality")
    assert recipe("tic_tac_toe").selfplay == SelfPlayConfig()
    for mode in get_args(get_type_hints(SelfPlayConfig)["mode"]):
        # Also where the recipe has a kind of self-play of its own, with opponents.
        for game in ("tic_tac_toe", "photosynthesis"):
            own = recipe(game, f"selfplay={mode}").selfplay
            assert own.mode == mode
            assert own.opponents == (("random",) if mode in ("stages", "fixed") else ())


def test_how_opponents_are_chosen():
    assert probabilities("uniform", [3.0, 0.0]).tolist() == [0.5, 0.5]
    # 1 : 2 : 4, the newest one most often
    assert probabilities("recent", [0.0] * 3) == pytest.approx([1 / 7, 2 / 7, 4 / 7])
    # softmax of 0 and ln 3: 1 : 3
    assert probabilities("quality", [0.0, np.log(3.0)]) == pytest.approx([0.25, 0.75])
    # 1 - 0.01 / 2 = 0.995
    assert after_win(1.0, 0.01, 4 * 0.5) == pytest.approx(0.995)


def test_versions_begin_as_hard_as_the_hardest_and_stay_while_they_play(tmp_path):
    own = SelfPlayConfig(mode="pool", every=1, keep=2)
    settings = config(tmp_path, own, env={"_target_": "tic_tac_toe"})
    net = RaggedNet(TicTacToe().obs_space(), TicTacToe().action_space(), settings.net)
    players = SelfPlay.of(settings, Game(TicTacToe, {}), net, torch.device("cpu"))
    run = RunFolder(tmp_path)
    players.after_update(run, 1, 1)
    players.after_update(run, 2, 2)
    first, second = players.get_state()["versions"]
    players.ended(Lineup(first, 0, 1.0), 1.0)
    players.ended(Lineup(second, 0, 1.0), 0.5)  # no win
    players.ended(Lineup(second, 0, 2.0), 1.0)
    players._opponent_rows = SimpleNamespace(lineups=[Lineup(first), Lineup()])
    players.after_update(run, 3, 3)
    state = players.get_state()
    third = state["versions"][1]
    # A win takes 0.01; the second is half of that for one that is drawn twice as often.
    assert state["quality"] == pytest.approx({second: -0.005, third: -0.005})
    assert state["playing"] == [first]
    assert isinstance(players.agent(first), NetworkAgent)
    players._opponent_rows = SimpleNamespace(lineups=[Lineup(second), Lineup()])
    assert players.get_state()["playing"] == []
    with pytest.raises(KeyError):
        players.agent(first)


def test_labels_are_short_and_differ():
    names = ["random", "runs/a/best", "other/a.b", "pkg.mod.play", "more/best"]
    assert list(opponent_labels(names).values()) == ["random", "best", "a_b", "play", "best_2"]


def test_scripts_that_a_stranger_names_as_opponents_are_not_imported(tmp_path):
    settings = config(tmp_path, MODES["fixed"], total_timesteps=64)
    run = train(settings, env=TicTacToe).run
    text = (run / "config.yaml").read_text()
    assert "- random" in text
    (run / "config.yaml").write_text(text.replace("- random", "- my_secret_module.play"))
    with pytest.raises(UntrustedRunError, match=r"selfplay\.opponents=.*my_secret_module"):
        resume(run, env=TicTacToe, total_timesteps=128)


def test_one_of_a_pool_begins_games_in_an_update_and_each_as_often_as_it_should(tmp_path):
    names = ("random", "ragged_envs.tic_tac_toe.play_perfectly")
    pool = SelfPlayConfig(mode="pool", past=0.5, opponents=names)
    settings = config(tmp_path, pool, env={"_target_": "tic_tac_toe"})
    rows = TicTacToe()
    net = RaggedNet(rows.obs_space(), rows.action_space(), settings.net)
    players = SelfPlay.of(settings, Game(TicTacToe, {}), net, torch.device("cpu"))
    drawn, most = [], 0
    for _ in range(400):
        players.before_update(0.0)
        met = [players.draw(game).opponent for game in range(20)]
        most = max(most, len(set(met) - {None}))
        drawn += met
    # 8,000 games: half of them against the learner itself, a quarter against each. There are 400
    # draws between the two: a deviation of 2.5% of half of the games.
    assert drawn.count(None) / len(drawn) == pytest.approx(0.5, abs=0.02)
    assert drawn.count("random") / len(drawn) == pytest.approx(0.25, abs=0.05)
    assert most == 1


def test_a_win_counts_by_how_likely_the_opponent_was_when_the_game_began(tmp_path):
    names = ("random", "ragged_envs.tic_tac_toe.play_perfectly")
    own = SelfPlayConfig(mode="pool", past=1.0, opponents=names, choose="quality")
    settings = config(tmp_path, own, env={"_target_": "tic_tac_toe"})
    net = RaggedNet(TicTacToe().obs_space(), TicTacToe().action_space(), settings.net)
    players = SelfPlay.of(settings, Game(TicTacToe, {}), net, torch.device("cpu"))
    players.before_update(0.0)
    lineup = players.draw(0)
    assert lineup.ratio == 1.0
    for _ in range(3000):
        players.ended(lineup, 1.0)
    # 3,000 * 0.01 / (2 * 0.5): meanwhile its chance falls to e^-30, and what a win takes stays.
    qualities = players.get_state()["quality"]
    assert qualities[lineup.opponent] == pytest.approx(-30.0)
    players.before_update(0.0)
    assert players.draw(0).opponent != lineup.opponent
