"""Maps, cells of maps, sets of flags, attributes and shared vocabularies are learned from."""

from __future__ import annotations

from dataclasses import replace

import pytest
from learning_support import SMALL_NET, small_config, train_and_play
from support.input_envs import CoinOnAMap, Locks, PickTheCoin, SameTerrain

pytestmark = pytest.mark.learning


class WithoutTheMap(CoinOnAMap):
    """The same game, in which the map is never shown."""

    def reset(self):
        observation = super().reset()
        observation.features = {"Robot": [[1.0]]}
        return observation


def played(tmp_path, env, steps, **net):
    config = small_config(tmp_path, steps=steps, net=replace(SMALL_NET, **net))
    greedy, _, _ = train_and_play(config, env)
    return greedy.mean("episodic_reward")


def test_the_coin_is_found_on_the_map(tmp_path):
    assert played(tmp_path, CoinOnAMap, 24_000) > 0.95


def test_without_the_map_the_coin_is_guessed(tmp_path):
    # 1 / 4; of 1,000 games the standard deviation is 0.014.
    assert played(tmp_path, WithoutTheMap, 4_000) < 0.32


def test_the_cell_with_the_coin_is_selected(tmp_path):
    assert played(tmp_path, PickTheCoin, 12_000) > 0.95


@pytest.mark.parametrize("net", [{}, {"embedding": "attributes"}, {"discrete": "concat"}], ids=str)
def test_flags_are_told_from_each_other(tmp_path, net):
    assert played(tmp_path, Locks, 16_000, **net) > 0.95


def test_terrains_of_one_vocabulary_are_compared(tmp_path):
    assert played(tmp_path, SameTerrain, 16_000) > 0.95
