"""The massively multiplayer world under random actions, wrong ones, and as agents of PettingZoo."""

from __future__ import annotations

import numpy as np
import pytest
from mmo_support import SMALL_WORLD, World
from ragged_envs.mmo.body import (
    CONSTITUTION,
    FISHING,
    FOOD,
    HEALTH,
    HUNTING,
    LEVEL,
    LIVING,
    ROW,
    WATER,
    XP,
)
from ragged_envs.mmo.terrain import LAKE, STONE
from ragged_envs.mmo.world import MmoRows
from support.broken import ragged

from entity_env.errors import EntityEnvError
from entity_env.play import random_policy


def check(rows, obs, before):
    """Check what holds in every tick; ``before`` are the agents, by seat, of the tick before."""
    for game in range(len(rows) // rows.num_seats):
        saved = rows.save_game(game)
        agents, tiles = np.array(saved["agents"]), np.array(saved["tiles"])
        living = np.flatnonzero(agents[:, LIVING])
        first = game * rows.num_seats
        shown = obs.rows[(obs.rows >= first) & (obs.rows < first + rows.num_seats)] - first
        assert shown.tolist() == living.tolist()
        assert sorted(saved["order"][: saved["alive"]]) == living.tolist(), "two rows for one agent"
        own = agents[living]
        for number, skill in ((FOOD, HUNTING), (WATER, FISHING), (HEALTH, CONSTITUTION)):
            assert (own[:, number] >= 0).all()
            assert (own[:, number] <= own[:, LEVEL + skill]).all()
        assert not np.isin(tiles[own[:, ROW], own[:, ROW + 1]], (LAKE, STONE)).any()
        for seat in living:
            was = before.get((game, seat))
            if was is not None and not obs.done[first + seat]:
                assert (agents[seat, XP:] >= was[XP:]).all(), "experience falls"
                assert (agents[seat, LEVEL:XP] >= was[LEVEL:XP]).all()
        for seat in range(rows.num_seats):
            before.pop((game, seat), None)
        before.update({(game, seat): agents[seat] for seat in living})


def play(rows, actions):
    """Play so many random actions; return how many died."""
    obs, policy, before, played, died = rows.reset(), random_policy(1), {}, 0, 0
    while played < actions:
        played += obs.num_frames
        obs = rows.act(policy(obs))
        died += int(obs.done.sum())
        assert (obs.reward == -1.0 * obs.done).all()
        check(rows, obs, before)
    return died


def test_random_actions_break_no_rule():
    rows = MmoRows(12, 3, **SMALL_WORLD)
    rows.interpret()
    assert play(rows, 1200) > 20


@pytest.mark.platforms
@pytest.mark.compiled
@pytest.mark.parametrize("settings", [{}, {"wilderness": True, "random_order": True}])
def test_100_000_random_actions_break_no_rule(settings):
    tiles = np.pad(np.random.default_rng(0).choice([1, 2, 4, 4, 5], (30, 30)), 9)
    rows = MmoRows(256, 3, tiles=tiles, spawns=np.argwhere(tiles == 2)[:20], **settings)
    assert play(rows, 100_000) > 2000


def test_who_is_dead_cannot_act():
    world = World("...", agents=3).grow(2)
    alive = world.obs.num_frames
    moves = {"Move": ragged([4] * (alive + 1), [1] * (alive + 1)), "Attack": ragged([], [0] * 3)}
    with pytest.raises(EntityEnvError, match="Move"):
        world.rows.act(moves)
    # Nothing has happened: the world goes on.
    assert world.act().num_frames >= alive


def test_who_is_out_of_reach_cannot_be_attacked():
    world = World("." * 9, agents=2, immunity=0, radius=6).grow(2)
    world.put(1, column=3)  # mage reaches 3
    strikes = np.asarray(world.obs.features["Strike"][0].as_array())
    assert strikes[:, 2].tolist() == [2]
    lengths = world.obs.action_masks["Attack"].actors.size1()
    assert list(lengths) == [1, 1]
    # 0 itself, 1 the other agent, 2 the strike of mage, 3 a tile
    for entity in (1, 3):
        with pytest.raises(EntityEnvError, match="Attack"):
            world.rows.act({"Move": ragged([4, 4], [1, 1]), "Attack": ragged([entity, 0], [1, 1])})
    world.act({0: (2, 1)})
