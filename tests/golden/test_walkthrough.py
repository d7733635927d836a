"""One MineSweeper batch, from three states to the actions that go back: every number by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ragged_envs.minesweeper import MineSweeper
from support.tiny_envs import lists

from entity_env import (
    CategoricalAction,
    CategoricalActionMask,
    ListEnv,
    Observation,
    RaggedBufferBool,
    RaggedBufferF32,
    RaggedBufferI64,
    SelectEntityAction,
    SelectEntityActionMask,
    VecCategoricalActionMask,
    VecSelectEntityActionMask,
    batch_obs,
)
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.kinds.table import typed_actions
from ragged_net import EntityBatch
from ragged_net.layout import Layout

T, F = True, False

# One state each: mines, robots, cooldowns of the cannons.
STATES = [
    ([(0, 2), (0, 1), (2, 2), (0, 0), (1, 0)], [(1, 1)], []),
    ([(2, 1)], [(2, 0)], [0]),
    ([(1, 0), (0, 1), (2, 2)], [(0, 0), (2, 0)], []),
]
FEATURES = [
    {"Mine": [[0, 2], [0, 1], [2, 2], [0, 0], [1, 0]], "Robot": [[1, 1]]},
    {"Mine": [[2, 1]], "Robot": [[2, 0]], "Orbital Cannon": [[0]]},
    {"Mine": [[1, 0], [0, 1], [2, 2]], "Robot": [[0, 0], [2, 0]]},
]
IDS = [
    {"Mine": [("Mine", i) for i in range(5)], "Robot": [("Robot", 0)]},
    {"Mine": [("Mine", 0)], "Robot": [("Robot", 0)], "Orbital Cannon": [("Orbital Cannon", 0)]},
    {"Mine": [("Mine", i) for i in range(3)], "Robot": [("Robot", 0), ("Robot", 1)]},
]
# Right, Left, Up, Down, Defuse. (1, 1) is the centre of the board; (2, 0) is its bottom right
# corner, so neither Right nor Down; (0, 0) is its bottom left corner, so neither Left nor Down.
MOVES = [[[T, T, T, T, T]], [[F, T, T, F, T]], [[T, F, T, F, T], [F, T, T, F, T]]]
SHOOTERS = [[], [("Orbital Cannon", 0)], []]

CHOSEN = {"Move": ([4, 1, 4, 2], [1, 1, 2]), "Fire Orbital Cannon": ([0], [0, 1, 0])}


def games():
    return [
        MineSweeper.from_state(mines, robots, cooldowns, width=3, height=3)
        for mines, robots, cooldowns in STATES
    ]


def observations():
    return [game.observe() for game in games()]


def spaces():
    game = MineSweeper()
    return game.obs_space(), game.action_space()


def ragged_actions():
    return {
        name: RaggedBufferI64.from_flattened(
            np.array(values, np.int64)[:, None], np.array(lengths, np.int64)
        )
        for name, (values, lengths) in CHOSEN.items()
    }


EXPECTED_ACTIONS = [
    {
        "Move": CategoricalAction(
            [("Robot", 0)], np.array([4]), MineSweeper().action_space()["Move"].index_to_label
        ),
        "Fire Orbital Cannon": SelectEntityAction([], []),
    },
    {
        "Move": CategoricalAction(
            [("Robot", 0)], np.array([1]), MineSweeper().action_space()["Move"].index_to_label
        ),
        "Fire Orbital Cannon": SelectEntityAction([("Orbital Cannon", 0)], [("Mine", 0)]),
    },
    {
        "Move": CategoricalAction(
            [("Robot", 0), ("Robot", 1)],
            np.array([4, 2]),
            MineSweeper().action_space()["Move"].index_to_label,
        ),
        "Fire Orbital Cannon": SelectEntityAction([], []),
    },
]


def test_the_entity_types_are_ordered_mine_robot_orbital_cannon():
    assert list(spaces()[0].entities) == ["Mine", "Robot", "Orbital Cannon"]


@pytest.mark.parametrize("i", range(3))
def test_each_state_gives_its_observation(i):
    seen = observations()[i]
    assert isinstance(seen, Observation)
    assert {n: rows.tolist() for n, rows in seen.features.items() if len(rows)} == FEATURES[i]
    assert {name: list(ids) for name, ids in seen.ids.items() if len(ids)} == IDS[i]
    move, fire = seen.actions["Move"], seen.actions.get("Fire Orbital Cannon")
    assert isinstance(move, CategoricalActionMask)
    assert list(move.actor_ids) == IDS[i]["Robot"]
    assert np.asarray(move.mask).tolist() == MOVES[i]
    assert (fire is None) == (not SHOOTERS[i])
    if fire is not None:
        assert isinstance(fire, SelectEntityActionMask)
        assert list(fire.actor_ids) == SHOOTERS[i]
        assert list(fire.actee_ids) == [*IDS[i]["Mine"], *IDS[i]["Robot"]]
    assert (seen.done, seen.truncated, seen.reward) == (False, False, 0.0)
    assert list(seen.global_features) == []
    assert dict(seen.visible) == dict(seen.metrics) == {}


def test_the_label_of_each_choice_agrees_with_the_masks():
    # A robot in the bottom left corner may only go right or up.
    labels = spaces()[1]["Move"].index_to_label
    allowed = [label for label, ok in zip(labels, MOVES[2][0], strict=True) if ok]
    assert allowed == ["Right", "Up", "Defuse Mines"]


def batch():
    return batch_obs(observations(), *spaces())


def test_batch_obs_packs_the_features_without_padding():
    obs = batch()
    assert list(obs.features) == ["Mine", "Robot", "Orbital Cannon"]
    assert all(isinstance(rows, RaggedBufferF32) for rows in obs.features.values())
    assert lists(obs.features["Mine"]) == [f["Mine"] for f in FEATURES]
    assert lists(obs.features["Robot"]) == [f["Robot"] for f in FEATURES]
    assert lists(obs.features["Orbital Cannon"]) == [[], [[0.0]], []]
    assert obs.features["Mine"].size1().tolist() == [5, 1, 3]
    assert obs.reward.tolist() == [0.0, 0.0, 0.0]
    assert obs.reward.dtype == np.float32
    assert obs.done.tolist() == [False, False, False]
    assert obs.done.dtype == np.bool_
    assert obs.metrics == {}
    assert obs.global_features.shape == (3, 0)


def test_batch_obs_names_actors_and_actees_by_their_index():
    obs = batch()
    assert list(obs.action_masks) == ["Move", "Fire Orbital Cannon"]
    move, fire = obs.action_masks["Move"], obs.action_masks["Fire Orbital Cannon"]
    assert isinstance(move, VecCategoricalActionMask)
    assert isinstance(move.actors, RaggedBufferI64)
    assert isinstance(move.mask, RaggedBufferBool)
    # 5 mines come before the robot; 1 mine; 3 mines come before two robots.
    assert lists(move.actors) == [[[5]], [[1]], [[3], [4]]]
    assert lists(move.mask) == MOVES
    assert isinstance(fire, VecSelectEntityActionMask)
    # 1 mine and 1 robot come before the cannon.
    assert lists(fire.actors) == [[], [[2]], []]
    assert lists(fire.actees) == [[], [[0], [1]], []]
    assert fire.mask is None


def test_the_flat_order_is_environment_first_then_entity_index():
    obs = batch()
    flat = EntityBatch.from_obs(obs)
    layout = Layout.of(flat, names=list(spaces()[0].entities))
    # 6, 3 and 5 entities.
    assert layout.offsets.tolist() == [0, 6, 9, 14]
    assert layout.num_rows == 14
    assert layout.dest["Mine"].tolist() == [0, 1, 2, 3, 4, 6, 9, 10, 11]
    assert layout.dest["Robot"].tolist() == [5, 7, 12, 13]
    assert layout.dest["Orbital Cannon"].tolist() == [8]


def test_scattering_the_types_puts_every_entity_in_its_row():
    flat = EntityBatch.from_obs(batch())
    layout = Layout.of(flat, names=list(spaces()[0].entities))
    # Each row: number of its type, then its features, padded with -1.
    parts = {
        name: torch.cat(
            [
                torch.full((ragged.num_rows, 1), float(kind)),
                ragged.values,
                torch.full((ragged.num_rows, 2 - ragged.values.shape[1]), -1.0),
            ],
            dim=1,
        )
        for kind, (name, ragged) in enumerate(flat.entities.items())
    }
    assert layout.scatter(list(parts.values()), list(layout.dest.values())).tolist() == [
        [0, 0, 2],  # environment 1: mines 0 to 4
        [0, 0, 1],
        [0, 2, 2],
        [0, 0, 0],
        [0, 1, 0],
        [1, 1, 1],  # its robot
        [0, 2, 1],  # environment 2: mine
        [1, 2, 0],  # robot
        [2, 0, -1],  # cannon
        [0, 1, 0],  # environment 3: mines 0 to 2
        [0, 0, 1],
        [0, 2, 2],
        [1, 0, 0],  # robots 0 and 1
        [1, 2, 0],
    ]


def test_the_actors_of_move_gather_rows_5_7_12_13():
    flat = EntityBatch.from_obs(batch())
    layout = Layout.of(flat, names=list(spaces()[0].entities))
    move, fire = flat.actions["Move"], flat.actions["Fire Orbital Cannon"]
    assert layout.offsets[:-1].tolist() == [0, 6, 9]
    assert move.actors.values.tolist() == [5, 1, 3, 4]
    assert move.actors.lengths.tolist() == [1, 1, 2]
    # 0 + 5, 6 + 1, 9 + 3, 9 + 4.
    assert layout.flat_rows(move.actors).tolist() == [5, 7, 12, 13]
    # 6 + 2; 6 + 0 and 6 + 1.
    assert layout.flat_rows(fire.actors).tolist() == [8]
    assert layout.flat_rows(fire.actees).tolist() == [6, 7]


@pytest.mark.parametrize("i", range(3))
def test_the_chosen_indices_come_back_as_actions_with_ids(i):
    obs_space, action_space = spaces()
    reader = FrameReader(obs_space, action_space)
    moves = [[4], [1], [4, 2]]
    shots = [[], [0], []]
    actions = typed_actions(
        reader.read(observations()[i]),
        {"Move": np.array(moves[i], np.int64), "Fire Orbital Cannon": np.array(shots[i], np.int64)},
        action_space,
    )
    assert actions == EXPECTED_ACTIONS[i]


class Recording(MineSweeper):
    """MineSweeper that starts in a given state and notes what it receives."""

    def __init__(self, state):
        mines, robots, cooldowns = state
        super().__init__(3, 3, len(mines), len(robots), len(cooldowns))
        game = MineSweeper.from_state(mines, robots, cooldowns, width=3, height=3)
        self.start = game.get_state()
        self.received = []

    def reset(self):
        return self.set_state(self.start)

    def act(self, actions):
        self.received.append(actions)
        return super().act(actions)


def test_ragged_actions_reach_the_environments_of_a_list_env():
    envs = []

    def create():
        envs.append(Recording(STATES[len(envs)]))
        return envs[-1]

    with ListEnv(create, 3) as vec:
        obs = vec.reset()
        assert lists(obs.action_masks["Move"].actors) == [[[5]], [[1]], [[3], [4]]]
        assert lists(ragged_actions()["Move"]) == [[[4]], [[1]], [[4], [2]]]
        assert lists(ragged_actions()["Fire Orbital Cannon"]) == [[], [[0]], []]
        vec.act(ragged_actions())
    assert [env.received for env in envs] == [[actions] for actions in EXPECTED_ACTIONS]
    # By label: defuse; left; defuse, up.
    assert [env.received[0]["Move"].labels for env in envs] == [
        ["Defuse Mines"],
        ["Left"],
        ["Defuse Mines", "Up"],
    ]


def test_the_step_that_follows_is_the_rules_of_the_game():
    envs = iter([Recording(state) for state in STATES])
    with ListEnv(lambda: next(envs), 3) as vec:
        vec.reset()
        obs = vec.act(ragged_actions())
    # Environment 1: the robot on (1, 1) defuses (0, 1) and (1, 0), at distance 1.
    assert lists(obs.features["Mine"])[0] == [[0, 2], [2, 2], [0, 0]]
    # Environment 2: the cannon destroys the only mine: won, and the first state is back.
    assert obs.done.tolist() == [False, True, False]
    assert obs.reward.tolist() == [0.0, 1.0, 0.0]
    assert lists(obs.features["Mine"])[1] == [[2, 1]]
    # Environment 3: the robot on (0, 0) defuses (1, 0) and (0, 1); the other goes up to (2, 1).
    assert lists(obs.features["Mine"])[2] == [[2, 2]]
    assert lists(obs.features["Robot"])[2] == [[0, 0], [2, 1]]
