"""Showing less of an environment: one by one, and for all rows at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.mines import NEEDS_NUMBA, minesweeper
from support.random_obs import ACTION_SPACE, OBS_SPACE, random_observation
from support.rows import rows_of
from support.tiny_envs import Farm, Replay, assert_same_obs, lists

from entity_env import (
    CategoricalAction,
    CategoricalActionMask,
    Continuous,
    Discrete,
    Entity,
    GlobalCategoricalActionMask,
    ListEnv,
    Observation,
    ObsSpace,
    RaggedBufferI64,
    SelectEntityAction,
    SelectEntityActionMask,
    batch_obs,
    check_env,
)
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.kinds.categorical import FrameCategoricalActors
from entity_env.batching.kinds.table import typed_actions
from entity_env.batching.unbatch import observations_of
from entity_env.errors import EntityEnvError, FeatureError, SpaceError
from entity_env.play import random_policy
from entity_env.wrappers import FeatureFilter, VecFeatureFilter, VecValidate

# Robots come first, without their kind, then mines, with y before x; rocks and cannons go.
PART = ObsSpace(
    global_features=[Discrete("phase", 3)],
    entities={"Robot": Entity(["x", "y"]), "Mine": Entity(["y", "x"])},
)


def seen(observation, part=PART):
    """Return one observation as the filter shows it."""
    env = FeatureFilter(Replay([observation], OBS_SPACE, ACTION_SPACE), part)
    return env.reset()


def batch(observation, part=PART):
    return batch_obs([observation], part, ACTION_SPACE)


def observation(**changes):
    parts = {
        "features": {
            "Mine": [[1, 2], [3, 4]],
            "Robot": [[5, 1, 6], [7, 2, 8]],
            "Cannon": [[9], [10]],
            "Rock": [[], []],
        },
        "ids": {"Mine": ["m0", "m1"], "Robot": ["r0", "r1"], "Cannon": ["c0", "c1"]},
        "global_features": [0.5, 2],
    }
    return Observation(**{**parts, **changes})


# ------------------------------------------------------------------------- one environment


def test_types_and_features_come_in_the_order_of_the_smaller_space():
    obs = batch(seen(observation(visible={"Mine": [True, False], "Rock": [False, True]})))
    assert list(obs.features) == ["Robot", "Mine"]
    assert lists(obs.features["Robot"]) == [[[5, 6], [7, 8]]]
    assert lists(obs.features["Mine"]) == [[[2, 1], [4, 3]]]
    assert obs.global_features.tolist() == [[2]]
    assert {name: lists(shown) for name, shown in obs.visible.items()} == {
        "Mine": [[[True], [False]]]
    }


def test_reward_end_metrics_and_ids_stay():
    shown = seen(
        observation(
            reward=1.5, done=True, truncated=True, metrics={"score": 3}, actions={"Move": 1}
        )
    )
    assert (shown.reward, shown.done, shown.truncated) == (1.5, True, True)
    assert shown.metrics == {"score": 3}
    assert shown.ids == {"Robot": ["r0", "r1"], "Mine": ["m0", "m1"]}
    assert shown.actions == {}  # nobody can act any more, and so nobody reads what is there


# Each row of the mask says in binary which one it was: 1, 2, ... 7, and 1 again.
@pytest.mark.parametrize(
    ("given", "rows"),
    [
        # Inside, mines are 0 and 1, robots 2 and 3, rocks 4 and 5, cannons 6 and 7.
        # Outside, robots are 0 and 1, mines 2 and 3.
        ({"actor_types": ["Cannon", "Mine"]}, [(2, 3), (3, 4)]),
        ({"actor_types": ["Mine", "Rock", "Robot"]}, [(2, 1), (3, 2), (0, 5), (1, 6)]),
        ({"actor_ids": ["c1", "r1", "m0"]}, [(1, 2), (2, 3)]),
        ({"actor_ids": ["r0"]}, [(0, 1)]),
        ({}, [(2, 1), (3, 2), (0, 3), (1, 4)]),
        ({"actor_types": ["Cannon"]}, []),
        ({"actor_ids": ["c0"]}, []),
        ({"actor_ids": []}, []),
    ],
)
def test_rows_of_actors_that_are_left_out_leave_the_mask(given, rows):
    count = (
        len(given["actor_ids"])
        if "actor_ids" in given
        else 2 * len(given.get("actor_types", "1234"))
    )
    mask = [[bool((i % 7 + 1) & bit) for bit in (1, 2, 4)] for i in range(count)]
    shown = seen(observation(actions={"Move": CategoricalActionMask(mask=mask, **given)}))
    move = batch(shown).action_masks["Move"]
    coded = (move.mask.as_array() @ np.array([1, 2, 4])).tolist()
    actors = move.actors.as_array()[:, 0].tolist()
    assert list(zip(actors, coded, strict=True)) == rows


def test_rows_and_columns_of_who_is_left_out_leave_the_pairs():
    # Actors c0, r0, m1; actees r1, c1, m0. The cannon's row and the cannon's column go.
    mask = [[1, 1, 1], [1, 0, 0], [0, 1, 1]]
    given = SelectEntityActionMask(
        actor_ids=["c0", "r0", "m1"], actee_ids=["r1", "c1", "m0"], mask=mask
    )
    fire = batch(seen(observation(actions={"Fire": given}))).action_masks["Fire"]
    assert lists(fire.actors) == [[[0], [3]]]  # r0, m1
    assert lists(fire.actees) == [[[1], [2]]]  # r1, m0
    assert lists(fire.mask) == [[[True], [False], [False], [True]]]


def test_who_could_only_select_what_is_left_out_has_nothing_to_do():
    given = SelectEntityActionMask(
        actor_ids=["r0", "r1"], actee_ids=["c1", "m0"], mask=[[1, 0], [1, 1]]
    )
    fire = batch(seen(observation(actions={"Fire": given}))).action_masks["Fire"]
    assert (lists(fire.actors), lists(fire.actees)) == ([[[1]]], [[[2]]])
    nobody = SelectEntityActionMask(actor_types=["Robot"], actee_types=["Cannon", "Rock"])
    assert seen(observation(actions={"Fire": nobody})).actions == {}


def test_robots_without_ids_of_which_one_has_nothing_to_do_are_told_apart():
    given = SelectEntityActionMask(
        actor_types=["Robot"], actee_types=["Cannon", "Mine"], mask=[[1, 1, 0, 0], [1, 0, 0, 1]]
    )
    moves = CategoricalActionMask(actor_types=["Robot"])
    first = observation(ids={}, actions={"Fire": given, "Move": moves})
    inner = Replay([first, observation(ids={})], OBS_SPACE, ACTION_SPACE)
    env = FeatureFilter(inner, PART)
    shown = env.reset()
    fire = batch(shown).action_masks["Fire"]
    assert (lists(fire.actors), lists(fire.actees)) == ([[[1]]], [[[3]]])
    frame = FrameReader(PART, ACTION_SPACE).read(shown)
    chosen = {"Move": np.array([0, 2]), "Fire": np.array([3])}
    env.act(typed_actions(frame, chosen, ACTION_SPACE))
    # As it has given no ids, it gets none.
    (received,) = inner.received
    # The robot that has nothing to select takes the first cannon.
    assert received["Fire"] == SelectEntityAction([None, None], [None, None])
    assert received["Move"] == CategoricalAction([None, None], [0, 2], ["left", "right", "stay"])
    assert type(received["Move"].indices) is np.ndarray


def test_global_actions_stay():
    shown = seen(observation(actions={"Mode": GlobalCategoricalActionMask([False, True])}))
    mode = batch(shown).action_masks["Mode"]
    assert (lists(mode.actors), lists(mode.mask)) == ([[[4]]], [[[False, True]]])


def test_what_is_shown_shares_no_memory():
    features = {"Robot": np.ones((2, 3), np.float32), "Mine": np.ones((1, 2), np.float32)}
    shown = seen(observation(features=features, ids={}, global_features=np.ones(2, np.float32)))
    for name in ("Robot", "Mine"):
        assert not np.shares_memory(shown.features[name], features[name])


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"features": {"Mine": [[1, 2, 3]]}}, FeatureError, "'Mine'"),
        ({"features": {"Mine": np.ones((2, 3))}}, FeatureError, "'Mine'"),
        ({"features": {"Mien": [[1, 2]]}}, EntityEnvError, "did you mean 'Mine'?"),
        ({"features": {"Robot": [[1, 0, np.inf]]}}, FeatureError, "'y'"),
        ({"global_features": [1]}, FeatureError, "time, phase"),
        ({"actions": {"Move": CategoricalActionMask(actor_ids=["c7"])}}, EntityEnvError, "'c7'"),
        ({"actions": {"Move": CategoricalActionMask(mask=[[1, 0]])}}, EntityEnvError, "(8 actors"),
    ],
)
def test_mistakes_of_the_environment_are_named(changes, error, words):
    with pytest.raises(error) as caught:
        batch(seen(observation(**changes)))
    assert words in str(caught.value)


def test_a_farm_that_shows_less_is_a_sound_environment(monkeypatch):
    monkeypatch.setattr("entity_env.check._LEAST_STEPS", 50)
    part = ObsSpace(["time"], {"Food": Entity(["x"]), "Animal": Entity([Discrete("kind", 3)])})
    check_env(lambda: FeatureFilter(Farm(), part))


# ------------------------------------------------------------------------------- all rows


def random_part(rng):
    """Some types with some of their features, all in random order."""
    types = rng.permutation(list(OBS_SPACE.entities))[: rng.integers(0, 5)]
    return ObsSpace(
        _some(rng, OBS_SPACE.global_features),
        {str(name): Entity(_some(rng, OBS_SPACE.entities[name].features)) for name in types},
    )


def _some(rng, features):
    return [features[i] for i in rng.permutation(len(features))[: rng.integers(0, 4)]]


def random_games(rng, rows, steps):
    """For each row what it shows after each step; new episodes begin where one ends."""
    games = []
    for _ in range(rows):
        shown = [random_observation(rng)]
        for _ in range(steps):
            shown.append(random_observation(rng, ends=0.3))
            if shown[-1].done:
                shown.append(random_observation(rng))
        games.append(shown)
    return games


def replays(games):
    """A function that makes one environment after the other, and those that it has made."""
    made = []

    def create():
        made.append(Replay(games[len(made)], OBS_SPACE, ACTION_SPACE))
        return made[-1]

    return create, made


def whole_choice(observation, part, shown, own):
    """Return the actions that the rows inside should get in one row, computed slowly.

    ``shown`` is the frame outside, ``own`` its choices.
    """
    frame = FrameReader(OBS_SPACE, ACTION_SPACE).read(observation)
    index = [(name, i) for name, rows in frame.features.items() for i in range(len(rows))]
    place = {
        (name, i): number
        for number, (name, i) in enumerate(
            (name, i) for name in part.entities for i in range(len(frame.features[name]))
        )
    }
    chosen = {}
    for name, who in frame.actions.items():
        outside = shown.actions.get(name)
        outside_actors = [] if outside is None else outside.actors.tolist()
        answers = dict(zip(outside_actors, own[name].tolist(), strict=True))
        chosen[name] = []
        for a, actor in enumerate(who.actors.tolist()):
            new = len(place) if actor == len(index) else place.get(index[actor])
            if isinstance(who, FrameCategoricalActors):
                first = who.mask[a].tolist().index(True)
                chosen[name].append(answers.get(new, first))
            elif new in answers:
                chosen[name].append(
                    next(i for i, one in enumerate(index) if place.get(one) == answers[new])
                )
            else:
                allowed = [True] * len(who.actees) if who.mask is None else who.mask[a].tolist()
                chosen[name].append(int(who.actees[allowed.index(True)]))
    chosen = {name: np.array(indices, np.int64) for name, indices in chosen.items()}
    return typed_actions(frame, chosen, ACTION_SPACE)


@given(st.integers(0, 2**32))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_filtered_rows_are_rows_of_filtered_environments(seed):
    rng = np.random.default_rng(seed)
    part, rows, steps = random_part(rng), 3, 4
    games = random_games(rng, rows, steps)
    inside, singles = replays([list(game) for game in games])
    outside, many = replays([list(game) for game in games])
    a = ListEnv(lambda: FeatureFilter(inside(), part), rows)
    b = VecValidate(VecFeatureFilter(ListEnv(outside, rows), part))
    assert (a.obs_space(), a.action_space()) == (b.obs_space(), b.action_space())
    before = [game.pop(0) for game in games]
    obs_a, obs_b = a.reset(), b.reset()
    policy = random_policy(seed)
    for _ in range(steps):
        assert_same_choices(obs_a, obs_b, part)
        assert_contiguous(obs_b)
        actions = policy(obs_b)
        frames = [FrameReader(part, ACTION_SPACE).read(seen(one, part)) for one in before]
        own = [
            {
                name: np.array(lists(buffer)[row], np.int64).ravel()
                for name, buffer in actions.items()
            }
            for row in range(rows)
        ]
        obs_a, obs_b = a.act(actions), b.act(actions)
        for row in range(rows):
            complete = whole_choice(before[row], part, frames[row], own[row])
            assert singles[row].received[-1] == many[row].received[-1] == complete
            before[row] = games[row].pop(0)
            if before[row].done:
                before[row] = games[row].pop(0)
    assert_same_choices(obs_a, obs_b, part)


def assert_same_choices(a, b, part):
    """Compare observations, without the entities that no actor can select."""
    frames = [observations_of(obs, part, ACTION_SPACE) for obs in (a, b)]
    shown = [rows_of(batch_obs(own, part, ACTION_SPACE)) for own in frames]
    assert shown[0] == shown[1]
    for results in ("reward", "done", "truncated"):
        assert getattr(a, results).tolist() == getattr(b, results).tolist()


def assert_contiguous(obs):
    assert obs.global_features.flags.c_contiguous
    assert obs.global_features.dtype == np.float32


def test_rows_that_play_minesweeper_show_robots_without_x():
    part = ObsSpace(entities={"Robot": Entity(["y"]), "Mine": Entity(["x", "y"])})
    settings = {"nmines": (1, 5), "nrobots": (1, 3), "max_steps": 6, "orbital_cannon": True}
    native = pytest.importorskip("ragged_envs.minesweeper")
    whole, some = (native.MineSweeperRows(16, seed=1, **settings) for _ in range(2))
    env, policy, ends = VecFeatureFilter(some, part), random_policy(1), 0
    before, obs = whole.reset(), env.reset()
    for _ in range(30):
        assert list(obs.features) == ["Robot", "Mine"]
        assert_array_equal(
            obs.features["Robot"].as_array(), before.features["Robot"].as_array()[:, 1:]
        )
        # Robots come first now, and so each is its own number.
        assert all(
            [one for (one,) in row] == list(range(len(row)))
            for row in lists(obs.action_masks["Move"].actors)
        )
        # Cannons, which have gone, no longer fire; in rows they shoot the first mine.
        assert obs.action_masks["Fire Orbital Cannon"].actors.items() == 0
        moves = policy(obs)
        counts = before.action_masks["Fire Orbital Cannon"].actors.size1()
        first = np.zeros((counts.sum(), 1), np.int64)
        whole_actions = {
            **moves,
            "Fire Orbital Cannon": RaggedBufferI64.from_flattened(first, counts),
        }
        before, obs = whole.act(whole_actions), env.act(moves)
        assert_array_equal(before.reward, obs.reward)
        assert (before.final is None) == (obs.final is None)
        if obs.final is not None:
            ends += 1
            assert_array_equal(
                obs.final.features["Robot"].as_array(),
                before.final.features["Robot"].as_array()[:, 1:],
            )
    assert ends > 3


def assert_array_equal(a, b):
    np.testing.assert_array_equal(a, b)


def test_with_all_types_in_their_order_actions_go_through_as_they_are():
    part = ObsSpace(OBS_SPACE.global_features, {**OBS_SPACE.entities, "Robot": Entity(["x", "y"])})
    one = observation(
        actions={
            "Move": CategoricalActionMask(actor_types=["Cannon"]),
            "Fire": SelectEntityActionMask(actor_ids=["c1"], actee_types=["Rock"]),
        }
    )
    inner = Replay([one, one], OBS_SPACE, ACTION_SPACE)
    env = VecFeatureFilter(ListEnv(lambda: inner, 1), part)
    obs = env.reset()
    assert lists(obs.action_masks["Move"].actors) == [[[6], [7]]]
    assert obs.features["Robot"].as_array().tolist() == [[5, 6], [7, 8]]
    numbers = {"Move": [1, 2], "Fire": [5]}
    env.act({n: RaggedBufferI64.from_array(np.array(v)[None, :, None]) for n, v in numbers.items()})
    assert inner.received[0]["Move"].actors == ["c0", "c1"]
    assert inner.received[0]["Move"].indices.tolist() == [1, 2]
    assert inner.received[0]["Fire"] == SelectEntityAction(["c1"], [None])


def test_wrong_actions_are_answered_in_the_numbers_that_are_shown():
    one = observation(
        actions={"Fire": SelectEntityActionMask(actor_types=["Robot"], actee_types=["Mine"])}
    )
    env = VecFeatureFilter(ListEnv(lambda: Replay([one, one], OBS_SPACE, ACTION_SPACE), 1), PART)
    env.reset()
    for wrong in (0, 1, 4, -1):
        with pytest.raises(EntityEnvError, match=r"\[2, 3\]"):
            env.act({"Fire": RaggedBufferI64.from_array(np.array([[[2], [wrong]]]))})
    env.act({"Fire": RaggedBufferI64.from_array(np.array([[[2], [3]]]))})


def test_state_goes_through_and_brings_the_filtered_observation_back():
    whole = Farm().obs_space()
    animal = Entity([Discrete("kind", 3)])
    part = ObsSpace(whole.global_features, {"Food": whole.entities["Food"], "Animal": animal})
    env = VecFeatureFilter(ListEnv(Farm, 3, seed=5), part)
    policy = random_policy(5)
    obs = env.reset()
    for _ in range(4):
        obs = env.act(policy(obs))
    state, actions = env.get_state(), policy(obs)
    expected = env.act(actions)
    again = env.set_state(state)
    assert_same_obs(
        again,
        replace(
            obs,
            reward=again.reward,
            done=again.done,
            metrics={},
            truncated=again.truncated,
            final=None,
        ),
    )
    assert_same_obs(env.act(actions), expected)


# --------------------------------------------------------------------------------- spaces


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (ObsSpace(entities={"Mien": Entity(["x"])}), "did you mean 'Mine'?"),
        (ObsSpace(entities={"Mine": Entity(["z"])}), "entity type 'Mine' has no feature 'z'"),
        (ObsSpace(["tick"]), "the environment has no global feature 'tick'"),
        (ObsSpace([Discrete("phase", 4)]), "Discrete(name='phase', n=3), as in the environment"),
        (ObsSpace([Continuous("phase")]), "is of another kind"),
        (ObsSpace([Continuous("time", 1, 2)]), "is of another kind"),
        (ObsSpace(entities={"Robot": Entity(["kind"])}), "is of another kind"),
        ({"Mine": ["x"]}, "not an observation space\n  expected: an ObsSpace"),
    ],
)
@pytest.mark.parametrize("kind", [FeatureFilter, VecFeatureFilter])
def test_a_space_that_is_no_part_is_refused(kind, part, words):
    env = Replay([], OBS_SPACE, ACTION_SPACE)
    with pytest.raises(SpaceError) as caught:
        kind(env if kind is FeatureFilter else ListEnv(lambda: env, 1), part)
    assert words in str(caught.value)


def test_a_name_is_a_continuous_feature_without_scale():
    part = ObsSpace([Continuous("time")], {"Mine": Entity([Continuous("y")])})
    assert batch(seen(observation(), part), part).features["Mine"].as_array().tolist() == [[2], [4]]


@NEEDS_NUMBA
def test_minesweeper_without_mines_cannot_fire_at_them():
    part = dict(minesweeper().obs_space().entities)
    del part["Mine"]
    env = FeatureFilter(minesweeper(orbital_cannon=True), ObsSpace(entities=part))
    assert set(env.reset().features) == {"Robot", "Orbital Cannon"}
