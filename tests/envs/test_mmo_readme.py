"""The own map, rewards and system of ``envs/mmo/README.md`` work as they stand there."""

from __future__ import annotations

import importlib
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mmo_support import SMALL_WORLD, World
from ragged_envs.mmo.body import HEALTH, LIVING
from ragged_envs.mmo.observation import show_self
from ragged_envs.mmo.terrain import FOREST, GRASS, LAKE
from ragged_envs.mmo.world import MmoRows
from support.broken import ragged

from entity_env import Entity, ObsSpace, SeatRows
from entity_env.errors import SettingError
from entity_env.play import random_policy

README = (Path(__file__).parents[2] / "envs" / "mmo" / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
NAMES = [re.match(r'"""(\w+)\.py: ', block).group(1) for block in BLOCKS]


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """The modules, by name."""
    folder = tmp_path_factory.mktemp("own")
    for name, block in zip(NAMES, BLOCKS, strict=True):
        (folder / f"{name}.py").write_text(block)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield {name: importlib.import_module(name) for name in NAMES}
    for name in NAMES:
        del sys.modules[name]


def played(rows, ticks=30):
    """Play at random; yield each observation after the first, and the world before it."""
    rows.interpret()
    obs, policy = rows.reset(), random_policy(0)
    for _ in range(ticks):
        obs = rows.act(policy(obs))
        yield obs


def test_a_system_takes_one_short_file():
    assert NAMES == ["islands", "wages", "trading"]
    assert all(len(block.splitlines()) <= 120 for block in BLOCKS)


def test_an_own_map(own):
    tiles, spawns = own["islands"].islands(3)
    assert (tiles[tuple(spawns.T)] == GRASS).all()
    assert {GRASS, FOREST, LAKE} < set(tiles.flat)
    rows = own["islands"].IslandRows(map_seed=3, agents=8)
    rows.interpret()
    obs = rows.reset()
    assert np.array_equal(rows.save_game(0)["tiles"], tiles)
    assert obs.num_frames == 1
    assert not np.array_equal(own["islands"].islands(4)[0], tiles)


def test_own_rewards(own):
    rows = own["wages"].WageRows(**SMALL_WORLD, wage=0.25)
    paid = 0
    for obs in played(rows):
        saved = rows.save_game(0)
        agents = np.array(saved["agents"])
        wages = 0.25 * agents[:, HEALTH] * agents[:, LIVING]
        if saved["newcomer"] >= 0:
            wages[saved["newcomer"]] = 0
        assert obs.reward.tolist() == (wages - obs.done).tolist()
        paid += (wages > 0).sum()
    assert paid > 20
    with pytest.raises(SettingError, match="did you mean 'wage'"):
        own["wages"].WageRows(wages=1.0)


class Market(World):
    """A world in which all stay where they are, attack nobody, and offer something."""

    def offer(self, **offers):
        asked = [offers.get(f"s{seat}", 0) for seat in self.obs.rows.tolist()]
        ones, lengths = [1] * len(asked), self.obs.action_masks["Attack"].actors.size1()
        answers = {
            "Move": ragged([4] * len(asked), ones),
            "Attack": ragged([0] * int(lengths.sum()), lengths.tolist()),
            "Offer": ragged(asked, ones),
        }
        self.obs = self.rows.act(answers)


def test_an_own_system(own, monkeypatch):
    monkeypatch.setattr("mmo_support.MmoRows", own["trading"].TradingRows)
    market = Market("." * 9, agents=3, immunity=99, radius=4)
    while market.obs.num_frames < 3:
        market.offer()
    for seat, column, food, water in ((0, 0, 9, 3), (1, 1, 4, 9), (2, 4, 9, 3)):
        market.put(seat, column=column, food=food, water=water)
    market.offer(s0=1, s1=2, s2=1)
    # 0 gives 2 food for 2 water, then a tick takes 1 of each; 2 stands too far away.
    assert market.food.tolist() == [6, 5, 8]
    assert market.water.tolist() == [4, 6, 2]
    shown = [market.obs.features["Agent"][frame].as_array() for frame in range(3)]
    # The others, from the left: of 0's and 1's offers nothing is left, 2's is open.
    assert [own[:, -1].tolist() for own in shown] == [[0, 1], [0, 1], [0, 0]]
    market.put(0, food=1)
    market.offer(s0=1, s1=2)
    assert market.food.tolist() == [0, 4, 7], "who has less than 2 cannot give them"


def show_tired(g, game, seat, i, out):
    show_self(g, game, seat, i, out)
    out[len(out) - 1] = 0.1 * seat


class TiredRows(MmoRows):
    def make_game(self, maps, shape, spawns):
        game = super().make_game(maps, shape, spawns)
        entities = dict(game.obs_space.entities)
        entities["Self"] = Entity([*entities["Self"].features, "tired"])
        shown = {**game.entities, "Self": replace(game.entities["Self"], rows=show_tired)}
        return replace(game, obs_space=ObsSpace(entities=entities), entities=shown)


def test_an_own_feature_of_agents_themselves():
    plain, tired = MmoRows(**SMALL_WORLD), TiredRows(**SMALL_WORLD)
    for before, obs in zip(played(plain, 10), played(tired, 10), strict=True):
        own = obs.features["Self"].as_array()
        assert np.array_equal(own[:, :-1], before.features["Self"].as_array())
        assert own[:, -1].tolist() == pytest.approx((0.1 * obs.rows).tolist())


def test_the_own_system_alone_is_that_of_the_rows(own):
    trading, settings = own["trading"], {**SMALL_WORLD, "traded": 1}
    seed = int(np.random.SeedSequence(3, spawn_key=(0,)).generate_state(1)[0])
    theirs = trading.TradingRows(seed=seed, **settings)
    ours = SeatRows(lambda: trading.Trading(**settings), 6, seed=3)
    theirs.interpret()
    policy, here, there = random_policy(1), ours.reset(), theirs.reset()
    for _ in range(30):
        for name, part in here.features.items():
            assert np.array_equal(part.as_array(), there.features[name].as_array()), name
        actions = policy(here)
        here, there = ours.act(actions), theirs.act(actions)
