"""A network as an agent over rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ragged_envs.tic_tac_toe import TicTacToe
from support.seat_games import Played, Secrets, asked, told
from support.trainer_runs import small_config
from support.turn_rows import ACTIONS, SPACE, TurnRows

from entity_env import CategoricalAction, MaskedEnvironment, SeatRows, errors
from entity_env.errors import RunFolderError
from ppo_trainer import train
from ppo_trainer.agent import load_agent
from ppo_trainer.players.network_agent import NetworkAgent
from ppo_trainer.players.opponents import make_opponent
from ragged_net import NetConfig, RaggedNet

GO = {"Go": CategoricalAction(["card"], np.array([1]), ["left", "right"])}


def network(**settings):
    torch.manual_seed(0)
    return RaggedNet(SPACE, ACTIONS, NetConfig(dim=32, layers=1, heads=2, **settings))


def test_it_plays_rows_and_remembers_each_of_them_until_its_episode_ends():
    net = network(memory="gru")
    agent = NetworkAgent(net, greedy=True)
    with TurnRows(6, seed=3) as rows:
        obs, states = rows.reset(), torch.zeros_like(net.initial_state(6))
        for _ in range(40):
            states[torch.from_numpy(obs.done)] = 0.0
            answers = agent.act_rows(obs)
            for place, row in enumerate(obs.rows.tolist()):
                # The slow way: each row alone.
                alone = NetworkAgent(net, greedy=True)
                alone.set_state(agent.get_state() | {"memory": states[[row]].tolist(), "rows": 1})
                one = _one(rows, obs, place)
                assert alone.act_rows(one)["Go"].as_array() == answers["Go"].as_array()[place]
                states[row] = torch.tensor(alone.get_state()["memory"])[0]
            obs = rows.act(answers)


def _one(rows, obs, place):
    from entity_env import batch_obs
    from entity_env.batching.unbatch import observations_of

    every = observations_of(obs, rows.obs_space(), rows.action_space())
    return batch_obs([every[place]], rows.obs_space(), rows.action_space())


def test_what_it_remembers_belongs_to_a_seat_also_in_one_batch():
    """One agent at two seats, in two games in turns, goes as an agent of its own at each seat."""
    seen = [{seat: asked(float(3 * step + seat)) for seat in range(3)} for step in range(8)]
    script = *seen, {seat: told(0.0, True) for seat in range(3)}
    spaces = (Secrets(3).obs_space(), Secrets(3).action_space())
    torch.manual_seed(0)
    net = RaggedNet(*spaces, NetConfig(dim=16, layers=1, heads=2, memory="gru"))
    shared = NetworkAgent(net, greedy=True)
    heard = []
    for opponents in (shared, [NetworkAgent(net, greedy=True) for _ in range(2)]):
        games = [Played(*script, seats=range(3)) for _ in range(2)]
        rows = [MaskedEnvironment(game, opponents, shuffle_seats=False) for game in games]
        for _ in range(2):
            for env in rows:
                env.reset()
            for _ in seen:
                for env in rows:
                    env.act(GO)
        heard += [game.heard for game in games]
    assert all(own == heard[0] for own in heard)
    assert heard[0][:8] == heard[0][8:]


def test_it_goes_on_drawing_where_its_state_was_saved():
    net = network(memory="gru")
    first, second = NetworkAgent(net, seed=1), NetworkAgent(net, seed=2)
    with TurnRows(8, seed=3) as rows:
        obs = rows.reset()
        for step in range(20):
            answers = first.act_rows(obs)
            if step >= 10:
                assert np.array_equal(
                    answers["Go"].as_array(), second.act_rows(obs)["Go"].as_array()
                )
            obs = rows.act(answers)
            if step == 9:
                second.set_state(first.get_state())
    with pytest.raises(errors.StateError, match="damaged"):
        second.set_state({"generator": "no"})


def test_the_agent_of_a_run_plays_rows_and_observations(tmp_path):
    run = train(small_config(total_timesteps=24, run_dir=str(tmp_path)), env=TicTacToe).run
    spaces = TicTacToe().obs_space(), TicTacToe().action_space()
    agents = [make_opponent(str(run), *spaces, greedy=True), load_agent(run, greedy=True)]
    with SeatRows(TicTacToe, 4) as rows:
        obs = rows.reset()
        chosen = [agent.act_rows(obs)["Mark"].as_array().tolist() for agent in agents]
    assert chosen[0] == chosen[1]
    shown = TicTacToe().reset()["X"]
    actees = [agent.act(shown)["Mark"].actees for agent in agents]
    assert actees == [[("Cell", chosen[0][0][0] - 1)]] * 2
    with pytest.raises(RunFolderError, match="not a run folder"):
        make_opponent(str(tmp_path), *spaces)
