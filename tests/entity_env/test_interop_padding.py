"""Environments as Gymnasium's, alone and as rows: padded observations, masks, actions back."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.utils.env_checker import check_env as check_gymnasium_env  # noqa: E402
from ragged_envs.minesweeper import MineSweeper  # noqa: E402
from support.random_obs import ACTION_SPACE, OBS_SPACE, random_observation  # noqa: E402
from support.strict_envs import StrictEnv, assert_allowed  # noqa: E402
from support.tiny_envs import Chain, Farm, row_seed  # noqa: E402

from entity_env import (  # noqa: E402
    CategoricalActionSpace,
    Entity,
    ListEnv,
    ObsSpace,
    SelectEntityActionSpace,
    batch_obs,
    check_env,
)
from entity_env.batching.action_checks import check_actions  # noqa: E402
from entity_env.batching.frame_reader import FrameReader  # noqa: E402
from entity_env.errors import ActionError, CapacityError, ResetNeededError, SettingError  # noqa: E402
from entity_env.interop import EntityGymnasiumEnv, EntityVectorEnv, GymnasiumEnv  # noqa: E402
from entity_env.interop.padded_spaces import PaddedSpaces  # noqa: E402
from entity_env.interop.padding import choose, pad  # noqa: E402
from entity_env.interop.room import find_room  # noqa: E402

SIZES = {"Mine": 3, "Robot": 2, "Orbital Cannon": 1}
ACTORS = {"Move": 2, "Fire Orbital Cannon": 1}
FARM = {"Animal": 4, "Food": 5, "Rock": 3}
FARM_ACTORS = {"Walk": 3, "Eat": 4}


class Game(MineSweeper):
    """One position: mines at (0, 0) and (2, 1), a robot at (0, 2), a cannon that is ready."""

    def __init__(self, robots=((0, 2),), mines=((0, 0), (2, 1))):
        super().__init__(3, 3, 2, len(robots), True, 4)
        position = MineSweeper.from_state(mines, robots, [0], width=3, height=3, cooldown_period=4)
        self.starts = position.get_state()

    def reset(self):
        return self.set_state(self.starts)


def minesweeper(render_mode=None):
    """Make the environment by its Gymnasium id."""
    game = MineSweeper(4, 4, 3, 2, True, 2, max_steps=20)
    return EntityGymnasiumEnv(game, SIZES, ACTORS, render_mode=render_mode)


def lists(arrays):
    return {name: array.tolist() for name, array in arrays.items()}


def test_a_position_by_hand():
    env = EntityGymnasiumEnv(Game(), SIZES, {"Move": 2, "Fire Orbital Cannon": 1})
    seen, info = env.reset()
    # Slots: mines 0 to 2, robots 3 and 4, the cannon 5.
    assert lists(seen) == {
        "Mine/features": [[0, 0], [2, 1], [0, 0]],
        "Mine/present": [1, 1, 0],
        "Robot/features": [[0, 2], [0, 0]],
        "Robot/present": [1, 0],
        "Orbital Cannon/features": [[0]],
        "Orbital Cannon/present": [1],
        # Right, Left, Up, Down, Defuse: the robot stands at the top left.
        "Move/actors": [3, -1],
        "Move/mask": [[1, 0, 0, 1, 1], [0, 0, 0, 0, 0]],
        "Fire Orbital Cannon/actors": [5],
        "Fire Orbital Cannon/mask": [[1, 1, 0, 1, 0, 0]],
    }
    assert env.action_space.nvec.tolist() == [5, 5, 6]
    flat = [1, 0, 0, 1, 1, *[1, 0, 0, 0, 0], *[1, 1, 0, 1, 0, 0]]
    assert env.action_masks().tolist() == [bool(one) for one in flat]
    assert np.concatenate(info["action_mask"]).tolist() == flat
    assert seen in env.observation_space
    # The robot goes right, the cannon shoots the second mine; the empty slot says anything.
    seen, reward, terminated, truncated, info = env.step(np.array([0, 4, 1]))
    assert seen["Mine/features"].tolist() == [[0, 0], [0, 0], [0, 0]]
    assert seen["Mine/present"].tolist() == [1, 0, 0]
    assert seen["Robot/features"].tolist() == [[1, 2], [0, 0]]
    assert seen["Orbital Cannon/features"].tolist() == [[4]]
    assert seen["Fire Orbital Cannon/actors"].tolist() == [-1]
    assert seen["Fire Orbital Cannon/mask"].tolist() == [[0] * 6]
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert "metrics" not in info


def test_a_robot_is_selected_by_its_slot():
    env = EntityGymnasiumEnv(Game(robots=((0, 2), (1, 2))), SIZES, ACTORS)
    env.reset()
    seen, *_ = env.step(np.array([4, 0, 4]))  # slot 4 is the second robot, which is shot
    assert seen["Robot/features"].tolist() == [[0, 2], [0, 0]]


def test_the_end_of_an_episode():
    env = EntityGymnasiumEnv(Game(robots=((2, 2),), mines=((0, 0), (2, 1))), SIZES, ACTORS)
    env.reset()
    # Defuses the second mine, and the cannon shoots the first one.
    seen, reward, terminated, truncated, info = env.step(np.array([4, 0, 0]))
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert info["metrics"] == {"win": 1.0, "episodic_reward": 1.0, "episodic_length": 1.0}
    # Nobody acts in it.
    assert seen["Move/actors"].tolist() == [-1, -1]
    nobody = [[1, 0, 0, 0, 0], [1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]]
    assert [mask.tolist() for mask in info["action_mask"]] == nobody
    with pytest.raises(ResetNeededError):
        env.step(np.array([0, 0, 0]))
    cut_off = EntityGymnasiumEnv(Chain(1, truncates=True), 1)
    cut_off.reset()
    *_, terminated, truncated, _ = cut_off.step([0])
    assert (terminated, truncated) == (False, True)


@pytest.mark.parametrize(
    ("chosen", "played"), [(0, [1, 2]), (1, [0, 1]), (2, [0, 1]), (3, [0, 1]), (4, [0, 2])]
)
def test_a_forbidden_choice_becomes_the_next_one(chosen, played):
    env = EntityGymnasiumEnv(Game(), SIZES, ACTORS)
    env.reset()  # Left (1) and Up (2) are forbidden; the next choice is Down (3)
    seen, *_ = env.step(np.array([chosen, 0, 0]))
    assert seen["Robot/features"].tolist()[0] == played


def test_behind_the_last_choice_comes_the_first():
    env = EntityGymnasiumEnv(Game(), SIZES, ACTORS)
    env.reset()  # the cannon may select slots 0, 1 and 3, and chooses 5
    seen, *_ = env.step(np.array([4, 0, 5]))
    assert seen["Mine/features"].tolist()[0] == [2, 1]


@pytest.mark.parametrize(
    ("action", "error", "word"),
    [
        ([0, 0], ActionError, "3 whole numbers"),
        ([[0, 0, 0], [0, 0, 0]], ActionError, "3 whole numbers"),
        ([0.5, 0.0, 0.0], ActionError, "3 whole numbers"),
        ([[0], [1, 2]], ActionError, "3 whole numbers"),
        (None, ActionError, "None"),
        ([0, 5, 0], ActionError, "number 1 of the action"),
        ([-1, 0, 0], ActionError, "from 0 to 4"),
    ],
)
def test_actions_that_are_none(action, error, word):
    env = EntityGymnasiumEnv(Game(), SIZES, ACTORS)
    env.reset()
    with pytest.raises(error) as caught:
        env.step(action)
    assert word in str(caught.value)
    assert "environment" not in str(caught.value)
    env.step([0, 0, 0])  # nothing was played


@pytest.mark.parametrize(
    ("sizes", "actors", "words"),
    [
        ({**SIZES, "Mine": 1}, ACTORS, ["'Mine' has 2 entities", "at most 1", "{'Mine': 2,"]),
        (SIZES, {**ACTORS, "Move": 0}, ["'Move' has 1 actor,", "max_actors={'Move': 1,"]),
    ],
)
def test_more_than_there_is_room_for(sizes, actors, words):
    env = EntityGymnasiumEnv(Game(), sizes, actors)
    with pytest.raises(CapacityError) as caught:
        env.reset()
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("sizes", "actors", "words"),
    [
        (
            {"Mine": 3, "Robot": 2},
            None,
            ["no number for entity type 'Orbital Cannon'", "received: {'Mine': 3, 'Robot': 2}"],
        ),
        ({**SIZES, "Robto": 1}, None, ["'Robto'", "did you mean 'Robot'"]),
        (SIZES, {"Moove": 1, "Fire Orbital Cannon": 1}, ["'Moove'", "did you mean 'Move'"]),
        (SIZES, {"Move": 1}, ["no number for action 'Fire Orbital Cannon'"]),
        (
            {**SIZES, "Mine": None},
            None,
            ["invalid max_entities of entity type 'Mine'", "received: None"],
        ),
        (-1, None, ["-1"]),
        (2.5, None, ["2.5"]),
        (True, None, ["True"]),
        (4, "many", ["'many'"]),
        (0, 0, ["no slots for actors"]),
    ],
)
def test_sizes_that_are_none(sizes, actors, words):
    with pytest.raises(SettingError) as caught:
        EntityGymnasiumEnv(Game(), sizes, actors)
    for word in words:
        assert word in str(caught.value)


def test_what_is_no_environment():
    with pytest.raises(SettingError, match="MineSweeper"):
        EntityGymnasiumEnv(MineSweeper, 5)
    with pytest.raises(SettingError, match="ListEnv"):
        EntityVectorEnv(MineSweeper(), 5)
    with pytest.raises(SettingError, match="rgb_array"):
        EntityGymnasiumEnv(MineSweeper(), 5, render_mode="human")
    for env in (EntityGymnasiumEnv(Game(), SIZES), EntityVectorEnv(ListEnv(Game, 2), SIZES)):
        with pytest.raises(SettingError):
            env.reset(seed=-1)
    env = EntityGymnasiumEnv(Game(), SIZES)
    with pytest.raises(ResetNeededError):
        env.step([0])
    with pytest.raises(ResetNeededError):
        env.action_masks()


def test_one_number_serves_all():
    env = EntityGymnasiumEnv(MineSweeper(), 2, 3)
    # Six slots of entities, and three actors of each action.
    assert env.action_space.nvec.tolist() == [5] * 3 + [6] * 3


def test_what_has_no_numbers_is_left_out():
    env = EntityGymnasiumEnv(Farm(), {**FARM, "Food": 0}, FARM_ACTORS)
    assert sorted(env.observation_space.spaces) == [
        "Animal/features",
        "Animal/present",
        "Eat/actors",
        "Eat/mask",
        "Rock/present",
        "Walk/actors",
        "Walk/mask",
        "Weather/mask",
        "global",
    ]
    box = env.observation_space["global"]
    assert (box.low[1], box.high[1]) == (0, 3)  # the season is discrete


@pytest.mark.parametrize(
    "make",
    [
        lambda: EntityGymnasiumEnv(Farm(), FARM, FARM_ACTORS),
        lambda: EntityVectorEnv(ListEnv(Farm, 2), FARM, FARM_ACTORS),
    ],
    ids=["one", "rows"],
)
def test_a_reset_has_no_options(make):
    env = make()
    first = env.reset(seed=5)[0]
    for options in ({"reset_mask": np.array([True, False])}, {"level": 3}, ["level"], 3):
        with pytest.raises(SettingError, match=r"None or \{\}") as caught:
            env.reset(seed=6, options=options)
        assert str(options)[:12] in caught.value.received
    env.step(env.action_space.sample())  # nothing has happened
    for options in ({}, None):
        assert lists(env.reset(seed=5, options=options)[0]) == lists(first)


@pytest.mark.parametrize("seeds", [[1, 2], (None, 2), np.array([1, 2])], ids=str)
def test_rows_are_seeded_together(seeds):
    envs = EntityVectorEnv(ListEnv(Farm, 2), FARM, FARM_ACTORS)
    envs.reset()
    with pytest.raises(SettingError, match="rows cannot be seeded one by one"):
        envs.reset(seed=seeds)
    envs.step(envs.action_space.sample())  # nothing has happened


def test_seeds_repeat_a_game():
    env = EntityGymnasiumEnv(Farm(), FARM, FARM_ACTORS)
    first, second = env.reset(seed=5)[0], env.reset()[0]
    assert lists(env.reset(seed=5)[0]) == lists(first)
    assert lists(env.reset()[0]) == lists(second) != lists(first)


def test_pictures_and_closing():
    env = EntityGymnasiumEnv(Farm(), FARM, render_mode="rgb_array")
    env.reset()
    assert env.render().shape == (2, 2, 3)
    assert EntityGymnasiumEnv(Farm(), FARM).render() is None
    closed = []
    env.env.close = lambda: closed.append(1)
    env.close()
    env.close()
    assert closed == [1]


def test_an_environment_that_does_not_draw_itself_is_drawn():
    env = EntityGymnasiumEnv(Chain(4), 1, render_mode="rgb_array")
    with pytest.raises(ResetNeededError):
        env.render()
    env.reset()
    first = env.render()
    env.step(env.action_space.sample())
    assert first.dtype == np.uint8
    assert first.shape == env.render().shape
    assert (first != env.render()).any()


def reference(frame, spaces):
    """The padded frame, one entity and one pair after the other."""
    starts, first, slot_of = {}, 0, []
    for name, limit in spaces.limits.items():
        starts[name] = first
        slot_of += range(first, first + len(frame.features[name]))
        first += limit
    arrays = {"global": frame.global_features}
    for name, limit in spaces.limits.items():
        rows = frame.features[name]
        shown = frame.visible.get(name, [True] * len(rows))
        width = len(OBS_SPACE.entities[name].features)
        arrays[f"{name}/features"] = np.zeros((limit, width))
        arrays[f"{name}/present"] = np.zeros(limit)
        for i, row in enumerate(rows):
            if shown[i]:
                arrays[f"{name}/features"][i] = row
                arrays[f"{name}/present"][i] = 1
    for action in spaces.actions:
        mask = np.zeros((action.count, action.choices))
        actors = np.full(action.count, -1)
        who = frame.actions.get(action.name)
        for slot, actor in enumerate(() if who is None else who.actors):
            actors[slot] = -1 if action.space.is_global else slot_of[actor]
            if action.space.selects:
                for nth, actee in enumerate(who.actees):
                    mask[slot, slot_of[actee]] = who.mask is None or who.mask[slot, nth]
            else:
                mask[slot] = who.mask[slot]
        arrays[f"{action.name}/mask"] = mask[0] if action.space.is_global else mask
        if not action.space.is_global:
            arrays[f"{action.name}/actors"] = actors
    return arrays


def test_padding_equals_a_loop_over_entities_and_pairs():
    rng = np.random.default_rng(1)
    spaces = PaddedSpaces(OBS_SPACE, ACTION_SPACE, 3, None)
    reader = FrameReader(OBS_SPACE, ACTION_SPACE)
    for _ in range(60):
        observations = [random_observation(rng, ends=0.1) for _ in range(int(rng.integers(1, 6)))]
        padded = pad(batch_obs(observations, OBS_SPACE, ACTION_SPACE), spaces)
        assert list(padded.arrays) == list(spaces.observation_space.spaces)
        for row, observation in enumerate(observations):
            expected = reference(reader.read(observation), spaces)
            for name, array in padded.arrays.items():
                np.testing.assert_array_equal(array[row], expected[name], err_msg=name)
            one = {name: array[row] for name, array in padded.arrays.items()}
            assert one in spaces.observation_space


def test_every_allowed_choice_reaches_the_environment_as_it_is():
    rng = np.random.default_rng(2)
    spaces = PaddedSpaces(OBS_SPACE, ACTION_SPACE, 3, None)
    for _ in range(60):
        observations = [random_observation(rng) for _ in range(4)]
        obs = batch_obs(observations, OBS_SPACE, ACTION_SPACE)
        frames = pad(obs, spaces)
        edges = np.cumsum(spaces.action_space.nvec)[:-1]
        numbers = [
            [int(rng.choice(np.flatnonzero(part))) for part in np.split(mask, edges)]
            for mask in frames.masks
        ]
        chosen = choose(np.array(numbers), frames, spaces)
        assert check_actions(chosen, obs, ACTION_SPACE) == chosen
        for row, observation in enumerate(observations):
            _check_row(row, observation, numbers[row], chosen, spaces)


def _check_row(row, observation, numbers, chosen, spaces):
    frame = FrameReader(OBS_SPACE, ACTION_SPACE).read(observation)
    slot_of = []
    first = 0
    for name, limit in spaces.limits.items():
        slot_of += range(first, first + len(frame.features[name]))
        first += limit
    for action in spaces.actions:
        who = frame.actions.get(action.name)
        count = 0 if who is None else len(who.actors)
        counts = chosen[action.name].size1()
        before = int(counts[:row].sum())
        own = chosen[action.name].as_array()[before : before + count, 0].tolist()
        given = numbers[action.numbers][:count]
        assert (
            [slot_of[entity] for entity in own] == given if action.space.selects else own == given
        )


def test_gymnasium_finds_no_fault():
    gymnasium.register("PaddedMines-v0", entry_point=minesweeper)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_gymnasium_env(gymnasium.make("PaddedMines-v0").unwrapped)
            farm = EntityGymnasiumEnv(Farm(), FARM, FARM_ACTORS)
            check_gymnasium_env(farm, skip_render_check=True)
    finally:
        del gymnasium.registry["PaddedMines-v0"]


def test_there_and_back_again():
    check_env(lambda: GymnasiumEnv(minesweeper), episodes=1)


def test_actions_are_sampled_with_the_mask_of_the_info():
    env = StrictEnv(Farm(), FARM, FARM_ACTORS)
    _, info = env.reset(seed=3)
    env.action_space.seed(1)
    for _ in range(200):
        _, _, terminated, truncated, info = env.step(env.action_space.sample(info["action_mask"]))
        if terminated or truncated:
            _, info = env.reset()


def test_actions_of_rows_are_sampled_with_the_masks_of_the_infos():
    envs = EntityVectorEnv(ListEnv(Farm, 3), FARM, FARM_ACTORS)
    _, infos = envs.reset(seed=3)
    one = envs.single_action_space
    one.seed(1)
    for _ in range(60):
        actions = np.array([one.sample(mask) for mask in infos["action_mask"]])
        assert_allowed(actions, envs.action_masks(), one.nvec)
        *_, infos = envs.step(actions)


# Rows.


def assert_equal(left, right, where=""):
    assert type(left) is type(right), where
    if left is None:
        return
    if isinstance(left, tuple):
        for a, b in zip(left, right, strict=True):
            assert_equal(a, b, where)
    elif isinstance(left, dict):
        assert set(left) == set(right), where
        for name in left:
            assert_equal(left[name], right[name], f"{where}.{name}")
    elif isinstance(left, np.ndarray) and left.dtype == object:
        for a, b in zip(left, right, strict=True):
            assert_equal(a, b, where)
    else:
        np.testing.assert_allclose(left, right, rtol=1e-6, err_msg=where)


@pytest.mark.parametrize(
    ("create_env", "sizes", "actors"),
    [
        (Farm, FARM, FARM_ACTORS),
        (lambda: MineSweeper(4, 4, 3, 2, True, 2, max_steps=6), SIZES, ACTORS),
    ],
)
def test_rows_equal_environments_one_by_one(create_env, sizes, actors):
    count, seed = 5, 11
    envs = EntityVectorEnv(ListEnv(create_env, count), sizes, actors)
    loop = gymnasium.vector.SyncVectorEnv(
        [lambda: EntityGymnasiumEnv(create_env(), sizes, actors) for _ in range(count)],
        autoreset_mode="SameStep",
    )
    assert envs.metadata["autoreset_mode"] == loop.metadata["autoreset_mode"]
    assert envs.observation_space == loop.observation_space
    assert envs.action_space == loop.action_space
    mine = envs.reset(seed=seed)
    theirs = loop.reset(seed=[row_seed(seed, row) for row in range(count)])
    assert_equal(mine, theirs)
    envs.action_space.seed(0)
    cut_off = ended = 0
    for _ in range(60):
        actions = envs.action_space.sample()
        mine, theirs = envs.step(actions), loop.step(actions)
        assert mine[0] in envs.observation_space
        told = [np.concatenate(mask) for mask in mine[4]["action_mask"]]
        np.testing.assert_array_equal(envs.action_masks(), told)
        # Rows that were terminated have no final observation here.
        terminated, truncated = theirs[2], theirs[3]
        if terminated.any() or truncated.any():
            theirs[4]["final_obs"][terminated] = None
            theirs[4]["_final_obs"] = truncated
            if not truncated.any():
                del theirs[4]["final_obs"], theirs[4]["_final_obs"]
        assert_equal(mine, theirs)
        cut_off += truncated.sum()
        ended += terminated.sum()
    assert cut_off > 3
    assert ended > 3
    envs.close()
    loop.close()


def test_rows_that_are_wrong_are_named():
    envs = EntityVectorEnv(ListEnv(Game, 3), SIZES, ACTORS)
    with pytest.raises(ResetNeededError):
        envs.step(np.zeros((3, 3), int))
    envs.reset()
    good = np.zeros((3, 3), int)
    bad = good.copy()
    bad[2, 0] = 9
    with pytest.raises(ActionError, match="environment 2"):
        envs.step(bad)
    with pytest.raises(ActionError, match="each of 3 rows"):
        envs.step(good[:2])
    envs.step(good)
    one = EntityVectorEnv(ListEnv(Chain, 3), 1)
    one.reset()
    with pytest.raises(ActionError, match="expected: 1 whole number for each of 3 rows"):
        one.step(np.zeros((3, 2), int))
    narrow = EntityVectorEnv(ListEnv(Farm, 8, seed=1), 2)
    with pytest.raises(CapacityError, match="environment"):
        narrow.reset(seed=1)


def test_arrays_belong_to_the_caller():
    envs = EntityVectorEnv(ListEnv(Farm, 4), FARM, FARM_ACTORS)
    other = EntityVectorEnv(ListEnv(Farm, 4), FARM, FARM_ACTORS)
    seen, infos = envs.reset(seed=3)
    other.reset(seed=3)
    masks = envs.action_masks()
    masks[:] = False
    for mask in infos["action_mask"]:
        for part in mask:
            part[:] = 0
    for array in seen.values():
        array[...] = 0
    actions = envs.action_space.sample()
    assert_equal(envs.step(actions), other.step(actions))


def test_padded_arrays_share_no_memory_with_the_rows():
    spaces = PaddedSpaces(OBS_SPACE, ACTION_SPACE, 3, None)
    obs = batch_obs([random_observation(np.random.default_rng(0))], OBS_SPACE, ACTION_SPACE)
    frames = pad(obs, spaces)
    own = [obs.global_features, *frames.allowed.values(), *frames.taken.values(), frames.masks]
    for array in frames.arrays.values():
        assert not any(np.shares_memory(array, other) for other in own)


def test_rows_draw_and_close():
    rows = ListEnv(Farm, 2)
    envs = EntityVectorEnv(rows, FARM, render_mode="rgb_array")
    envs.reset()
    assert [picture.shape for picture in envs.render()] == [(2, 2, 3)] * 2
    assert EntityVectorEnv(rows, FARM).render() is None
    envs.close()
    envs.close()
    with pytest.raises(Exception, match="closed"):
        rows.reset()


def test_rows_work_with_the_wrappers_of_gymnasium():
    envs = EntityVectorEnv(ListEnv(lambda: Chain(3), 2), 1)
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(envs)
    envs.reset()
    for _ in range(3):
        *_, infos = envs.step(np.zeros((2, 1), int))
    assert infos["episode"]["r"].tolist() == [6, 6]  # 1 + 2 + 3
    assert infos["final_info"]["metrics"]["twice"].tolist() == [6, 6]


def test_an_action_without_entities_has_no_slots():
    space = ObsSpace(entities={"A": Entity(["x"])})
    spaces = PaddedSpaces(
        space, {"Go": CategoricalActionSpace(["a", "b"]), "Hit": SelectEntityActionSpace()}, 2, 1
    )
    assert spaces.action_space.nvec.tolist() == [2, 2]
    assert spaces.nobody.tolist() == [True, False, True, False]


# ----------------------------------------------------------------------- sizes that are not given


def test_sizes_that_are_not_given_are_those_of_random_play():
    """Five mines in each episode; one of two robots ends on a mine, or none: all begin with 2."""
    rows = ListEnv(lambda: MineSweeper(4, 4, 5, 2, True, 2, max_steps=9), 3, seed=2)
    with pytest.warns(UserWarning, match=r"max_entities=\{'Mine': 5, 'Robot': 2, 'Orbital"):
        envs = EntityVectorEnv(rows)
    assert envs.padded_spaces.limits == {"Mine": 5, "Robot": 2, "Orbital Cannon": 1}
    assert [action.count for action in envs.padded_spaces.actions] == [2, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        EntityVectorEnv(rows, SIZES, ACTORS)
    with pytest.warns(UserWarning, match=r"needs: max_actors=\{'Move': 2"):
        envs = EntityVectorEnv(rows, 9)
    assert envs.padded_spaces.limits == dict.fromkeys(SIZES, 9)


def test_sizes_in_which_episodes_differ_get_half_as_many_again():
    class Growing(Chain):
        episodes = 0

        def reset(self):
            self.episodes += 1
            return super().reset()

    entities, actors = find_room(ListEnv(Farm, 4, seed=0))
    assert entities["Animal"] >= 4
    assert actors["Walk"] <= entities["Animal"]
    assert "Weather" not in actors
    assert find_room(ListEnv(Growing, 2)) == ({"Walker": 1}, {"Go": 1})
    assert find_room(ListEnv(lambda: GymnasiumEnv("CartPole-v1"), 2)) == ({}, {})


def test_the_random_numbers_of_an_environment_stay_as_they_are():
    firsts = []
    for sizes in ((), (FARM, FARM_ACTORS)):
        env = Farm()
        env.seed(3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            padded = EntityGymnasiumEnv(env, *sizes)
        padded.reset()
        firsts.append(env.rng.random())
    assert firsts[0] == firsts[1]
