"""Reading all rows at once gives what reading them one by one gives, mistakes included."""

from __future__ import annotations

import marshal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import broken, random_obs
from support.random_obs import ACTION_SPACE, OBS_SPACE, random_observation
from support.tiny_envs import Chain, Farm, assert_same_obs

from entity_env import (
    CategoricalActionMask,
    Environment,
    ListEnv,
    Observation,
    ObsSpace,
    RaggedBufferI64,
    SelectEntityActionMask,
    errors,
)
from entity_env.batching import plain_rows
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.kinds.table import typed_actions
from entity_env.batching.plain_rows import bool_rows, number_rows
from entity_env.batching.row_reader import RowReader
from entity_env.errors import EntityEnvError
from entity_env.play import random_policy


def where(row):
    return f"row {row}"


def both(observations, obs_space=OBS_SPACE, action_space=ACTION_SPACE):
    """The rows read at once, and one by one."""
    reader = RowReader(obs_space, action_space)
    return reader._read(observations), reader.read_each(observations, where)


def assert_same_rows(fast, slow):
    assert_same_obs(fast.obs, slow.obs)
    assert list(map(repr, fast.ids)) == list(map(repr, slow.ids))
    assert fast.first.tolist() == slow.first.tolist()
    assert fast.outcome.results() == slow.outcome.results()
    assert fast.outcome.done.tolist() == slow.outcome.done.tolist()
    assert fast.outcome.truncated.tolist() == slow.outcome.truncated.tolist()


@given(st.integers(0, 2**32), st.integers(2, 7))
@settings(max_examples=400, deadline=None, derandomize=True)
def test_common_observations_are_read_at_once_as_one_by_one(seed, rows):
    rng = np.random.default_rng(seed)
    ends = 0.3 if seed % 3 == 0 else 0.0
    observations = [random_observation(rng, ends=ends) for _ in range(rows)]
    assert_same_rows(*both(observations))


@given(st.integers(0, 2**32))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_the_outcome_alone_is_that_of_all(seed):
    rng = np.random.default_rng(seed)
    observations = [random_observation(rng, ends=0.8) for _ in range(4)]
    reader = RowReader(OBS_SPACE, ACTION_SPACE)
    outcome = reader.outcome(observations, where)
    slow = reader.read_each(observations, where).outcome
    assert outcome.results() == slow.results()
    assert outcome.done.tolist() == slow.done.tolist()
    assert outcome.truncated.tolist() == slow.truncated.tolist()


@given(st.integers(0, 2**32))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_actions_of_all_rows_are_those_of_each(seed):
    rng = np.random.default_rng(seed)
    observations = [random_observation(rng) for _ in range(5)]
    reader = FrameReader(OBS_SPACE, ACTION_SPACE)
    rows, _ = both(observations)
    chosen = random_policy(seed)(rows.obs)
    whole = {name: chosen.get(name, RaggedBufferI64(1)) for name in ACTION_SPACE}
    dealt = rows.typed_actions(whole, ACTION_SPACE)
    assert len(dealt) == 5
    for row, observation in enumerate(observations):
        own = {name: np.zeros(0, np.int64) for name in ACTION_SPACE}
        for name, buffer in whole.items():
            ends = np.cumsum(buffer.size1())
            own[name] = buffer.as_array()[:, 0][ends[row] - buffer.size1()[row] : ends[row]]
        expected = typed_actions(reader.read(observation), own, ACTION_SPACE)
        assert list(dealt[row]) == list(expected)
        assert dealt[row] == expected


def test_rows_of_different_kinds_keep_their_order():
    # Row 0 names its actors by type, row 1 by id, row 2 everybody, row 3 nobody.
    features = {"Mine": [[1, 2]], "Cannon": [[0.5], [1.5]]}
    ids = {"Mine": ["m"], "Cannon": ["a", "b"]}
    masks = [
        CategoricalActionMask(actor_types=["Cannon", "Mine"], mask=np.eye(3, dtype=int)),
        CategoricalActionMask(actor_ids=["b", "m"], mask=[[1, 0, 0], [0, 0, 1]]),
        CategoricalActionMask(),
        CategoricalActionMask(actor_types=["Robot"], mask=[]),
    ]
    observations = [
        Observation(features=features, ids=ids, actions={"Move": m}, global_features=[0, 0])
        for m in masks
    ]
    for rows in both(observations):
        move = rows.obs.action_masks["Move"]
        assert move.actors.size1().tolist() == [3, 2, 3, 0]
        assert move.actors.as_array()[:, 0].tolist() == [1, 2, 0, 2, 0, 0, 1, 2]
        allowed = move.mask.as_array().astype(int).tolist()
        assert allowed == [*np.eye(3).tolist(), [1, 0, 0], [0, 0, 1], *[[1, 1, 1]] * 3]
        assert list(rows.ids) == ["m", "a", "b"] * 4
        assert rows.first.tolist() == [0, 3, 6, 9]


def test_numbers_that_float64_would_round_are_left_to_the_reader_of_frames():
    # 2**60 + 2**36 + 1 lies just above the middle of two float32 numbers: as int64 it is rounded
    # up, by way of float64 (which loses the 1) it would be rounded to even, that is down.
    space = ObsSpace(entities={"A": broken.Entity(["x"])})
    big = 2**60 + 2**36 + 1
    observations = [Observation(features={"A": rows}) for rows in ([[big]], [[0.5]])]
    reader = RowReader(space, ACTION_SPACE)
    values = reader.read(observations, where).obs.features["A"].as_array()[:, 0]
    assert values.tolist() == [float(2**60 + 2**37), 0.5]


def test_large_numbers_of_float32_are_read_at_once():
    # The sum of their squares is more than float32 holds.
    space = ObsSpace(entities={"A": broken.Entity(["x"])})
    largest = float(np.finfo(np.float32).max)
    for rows in ([[1e30], [-largest]], np.array([[1e30], [-largest]], np.float32)):
        observations = [Observation(features={"A": rows}), Observation(features={"A": []})]
        assert_same_rows(*both(observations, space))


# Mistakes.

# What is more easily overlooked in many rows than in one.
MORE = [
    broken._obs(name, error, (), *path)
    for name, error, *path in [
        ("no rows of text", errors.FeatureError, "features", "Mine", np.zeros(0, "U1")),
        ("a dict of rows", errors.FeatureError, "features", "Mine", [{0: 1, 2: 3}] * 2),
        ("a dict for rows", errors.FeatureError, "features", "Cannon", {(0.0,): 1}),
        (
            "a flat pair mask",
            errors.MaskError,
            "actions",
            "Fire",
            SelectEntityActionMask(actor_types=["Cannon"], actee_types=["Mine"], mask=[True, True]),
        ),
        (
            "a pair mask on its side",
            errors.MaskError,
            "actions",
            "Fire",
            SelectEntityActionMask(
                actor_types=["Cannon"], actee_types=["Mine"], mask=[[True], [True]]
            ),
        ),
        (
            "a mask of text for nobody",
            errors.MaskError,
            "actions",
            "Move",
            CategoricalActionMask(actor_ids=[], mask=""),
        ),
        (
            "actors that are a dict",
            errors.MaskError,
            "actions",
            "Move",
            CategoricalActionMask(actor_ids={("Robot", 0): True}),
        ),
        (
            "actor types that are a dict",
            errors.MaskError,
            "actions",
            "Move",
            CategoricalActionMask(actor_types={"Robot": True}),
        ),
        ("a mask that is None", errors.MaskError, "actions", "Move", None),
        ("visible as fractions", errors.ObservationError, "visible", "Mine", [0.5, 1.0]),
        ("another number for done", errors.ObservationError, "done", 2),
        ("a reward in a list", errors.ObservationError, "reward", [1.0]),
        ("a reward in an array", errors.ObservationError, "reward", np.ones(1)),
    ]
]


def broken_parts():
    """Each broken observation of the tables, as its arguments, with its name."""
    found = []
    for case in [*broken.OBSERVATIONS, *MORE]:
        caught = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(broken, "read", caught.append)
            try:
                case.run()
            except EntityEnvError:
                continue  # it fails before there is an observation
        if caught:
            found.append(pytest.param(case, caught[0], id=case.name))
    return found


BROKEN = broken_parts()


class Show(Environment):
    """Shows the observations that ``make`` makes for (row, step)."""

    made = 0

    def __init__(self, make, obs_space=broken.OBS_SPACE, action_space=broken.ACTION_SPACE):
        self.row, Show.made = Show.made, Show.made + 1
        self.make, self.spaces, self.time = make, (obs_space, action_space), 0

    def obs_space(self):
        return self.spaces[0]

    def action_space(self):
        return self.spaces[1]

    def reset(self):
        self.time = 0
        return self.make(self.row, self.time)

    def act(self, actions):
        self.time += 1
        return self.make(self.row, self.time)


def show(make, rows, **spaces):
    Show.made = 0
    return ListEnv(lambda: Show(make, **spaces), rows)


@pytest.mark.parametrize(("case", "parts"), BROKEN)
def test_a_broken_row_has_the_error_of_the_reader_of_frames(case, parts):
    with pytest.raises(EntityEnvError) as alone:
        FrameReader(broken.OBS_SPACE, broken.ACTION_SPACE).read(Observation(**parts))

    def make(row, time):
        bad = row == 2 and time == 1
        return Observation(**(parts if bad else broken.valid_parts()))

    with show(make, 3) as env:
        obs = env.reset()
        with pytest.raises(EntityEnvError) as caught:
            env.act(random_policy(0)(obs))
    assert type(caught.value) is case.error
    assert str(caught.value) == f"environment 2, step 1, act: {alone.value}"
    assert type(caught.value.__cause__) is type(alone.value.__cause__)


@pytest.mark.parametrize(("case", "parts"), BROKEN)
def test_rows_that_are_all_broken_in_the_same_way_do_not_pass(case, parts):
    """Such as those of an environment whose spaces are not what it shows."""
    env = show(lambda row, time: Observation(**parts), 3)
    with env, pytest.raises(EntityEnvError) as caught:
        env.reset()
    assert type(caught.value) is case.error
    assert str(caught.value).startswith("environment 0, step 0, reset: ")


def in_the_actions(parts):
    """Return True if the mistake is in the actions, which are not read once an episode is over."""
    try:
        FrameReader(broken.OBS_SPACE, broken.ACTION_SPACE).read(
            Observation(**{**parts, "done": True})
        )
    except EntityEnvError:
        return False
    return True


@pytest.mark.parametrize(("case", "parts"), [p for p in BROKEN if not in_the_actions(p.values[1])])
def test_a_row_that_is_broken_at_the_end_of_its_episode_is_found(case, parts):
    def make(row, time):
        own = parts if row == 1 and time == 1 else broken.valid_parts()
        return Observation(**{**own, "done": own["done"] if own is parts else time == 1})

    if isinstance(parts["done"], bool):
        parts = {**parts, "done": True}
    with show(make, 3) as env, pytest.raises(EntityEnvError) as caught:
        env.act(random_policy(0)(env.reset()))
    assert type(caught.value) is case.error
    assert str(caught.value).startswith("environment 1, step 1, act: ")


def test_a_row_that_is_broken_in_its_new_episode_is_found():
    def make(row, time):
        new_episode = row == 1 and show_again
        return Observation(
            **{
                **broken.valid_parts(),
                "done": time == 1,
                "reward": None if new_episode and time == 0 else 0.0,
            }
        )

    show_again = False
    with show(make, 3) as env:
        obs = env.reset()
        show_again = True
        with pytest.raises(EntityEnvError, match=r"^environment 1, step 1, reset: the reward"):
            env.act(random_policy(0)(obs))


def test_a_new_episode_that_is_already_over_is_an_error():
    def make(row, time):
        return Observation(**{**broken.valid_parts(), "done": time == 1 or (row == 2 and again)})

    again = False
    with show(make, 3) as env:
        obs = env.reset()
        again = True
        with pytest.raises(errors.ObservationError, match=r"^environment 2, step 1: reset ret"):
            env.act(random_policy(0)(obs))


def test_an_array_of_text_without_rows_is_refused_beside_good_arrays():
    space = ObsSpace(entities={"A": broken.Entity(["x"])})
    good, bad = (Observation(features={"A": rows}) for rows in ([[1.0]], np.zeros(0, "U1")))
    with pytest.raises(errors.FeatureError, match=r"^row 1: the features of entity type 'A'"):
        RowReader(space, ACTION_SPACE).read([good, bad], where)


def test_the_first_broken_row_is_named():
    def make(row, time):
        return Observation(**{**broken.valid_parts(), "reward": None if row and time else 0.0})

    with show(make, 4) as env, pytest.raises(EntityEnvError, match=r"^environment 1, step 1, act"):
        env.act(random_policy(0)(env.reset()))


# Whole games.


def play(create, steps, rows=5):
    """The observations of a random game."""
    policy = random_policy(3)
    with ListEnv(create, rows, seed=4) as env:
        seen = [env.reset()]
        for _ in range(steps):
            seen.append(env.act(policy(seen[-1])))
    return seen


GAMES = {"Farm": lambda: Farm(max_steps=4), "Chain": lambda: Chain(2, truncates=True)}


def unusual(*args):
    raise RuntimeError("not at once")


@pytest.mark.parametrize("name", GAMES)
def test_a_game_read_at_once_is_the_game_read_frame_by_frame(name, monkeypatch):
    fast = play(GAMES[name], 40)
    monkeypatch.setattr("entity_env.batching.row_reader._Parts.of", unusual)
    for left, right in zip(fast, play(GAMES[name], 40), strict=True):
        assert_same_obs(left, right)
    assert any(obs.done.any() for obs in fast)


@pytest.mark.parametrize("name", GAMES)
def test_ordinary_games_are_read_at_once(name, monkeypatch):
    """Else they would be slow, and nobody would notice."""
    one_by_one = RowReader._frames

    def one_at_most(reader, observations, where):
        assert len(observations) == 1
        return one_by_one(reader, observations, where)

    monkeypatch.setattr(RowReader, "_frames", one_at_most)
    play(GAMES[name], 40)


class Reuses(Environment):
    """Writes all it shows into one array, one list of ids and one observation."""

    def __init__(self):
        self.place = np.zeros((1, 1))
        self.shown = Observation(
            features={"Walker": self.place},
            ids={"Walker": ["w"]},
            actions={"Go": CategoricalActionMask(actor_types=["Walker"])},
        )

    obs_space, action_space = Chain.obs_space, Chain.action_space

    def reset(self):
        return self._show(10.0, False)

    def act(self, actions):
        assert list(actions["Go"].actors) == ["w"]
        return self._show(self.place[0, 0] + 1, self.place[0, 0] == 11)

    def _show(self, place, over):
        self.place[0, 0] = place
        self.shown.done = self.shown.truncated = bool(over)
        self.shown.reward = place
        self.shown.metrics["place"] = place
        return self.shown


def test_an_environment_may_use_its_memory_again():
    first, second, third, fourth = play(Reuses, 3, rows=3)
    assert first.features["Walker"].as_array().tolist() == [[10.0]] * 3
    assert second.features["Walker"].as_array().tolist() == [[11.0]] * 3
    # The episode ended at 12, and the next one has begun.
    assert third.features["Walker"].as_array().tolist() == [[10.0]] * 3
    assert third.final.features["Walker"].as_array().tolist() == [[12.0]] * 3
    assert third.final.reward.tolist() == third.reward.tolist() == [12.0] * 3
    assert third.done.all()
    assert third.truncated.all()
    assert third.metrics["place"].tolist() == [12.0] * 3
    assert third.metrics["episodic_reward"].tolist() == [23.0] * 3
    assert not fourth.done.any()
    assert fourth.reward.tolist() == [11.0] * 3


@pytest.mark.parametrize("types", [{"Walker"}, {"Walker": 1}, "Walker"])
def test_types_that_are_no_list_are_refused_beside_ids_too(types):
    walkers = {"features": {"Walker": [[1.0]]}, "ids": {"Walker": ["w"]}}
    rows = [
        Observation(**walkers, actions={"Go": CategoricalActionMask(actor_types=types)}),
        Observation(**walkers, actions={"Go": CategoricalActionMask(actor_ids=["w"])}),
    ]
    reader = RowReader(Chain().obs_space(), Chain().action_space())
    with pytest.raises(errors.MaskError, match="row 0: action 'Go': the actors are not"):
        reader.read(rows, "row {}".format)


class Levels(Chain):
    """Says in one dict which episode it is, at the beginning of each."""

    def __init__(self):
        super().__init__(length=2)
        self.shown = {}
        self.level = 0

    def reset(self):
        self.level += 1
        self.shown["level"] = self.level
        return self._with_metrics(super().reset())

    def act(self, actions):
        self.shown.clear()
        return self._with_metrics(super().act(actions))

    def _with_metrics(self, obs):
        obs.metrics = self.shown
        return obs


@pytest.mark.parametrize("rows", [1, 3])
def test_metrics_of_an_ended_episode_are_its_own_where_their_dict_is_used_again(rows):
    _, _, second = play(Levels, 2, rows=rows)
    assert second.metrics["level"].tolist() == [1.0] * rows
    assert set(second.metrics) == {"level", "episodic_reward", "episodic_length"}


# Rows of plain Python numbers.

floats = st.floats(width=64, allow_nan=True, allow_infinity=True)
small = st.integers(-(2**31), 2**31 - 1)


@given(st.data(), st.lists(st.sampled_from([floats, small]), min_size=1, max_size=4))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_plain_rows_are_what_numpy_makes_of_them(data, columns):
    kind = data.draw(st.sampled_from([list, tuple]))
    rows = data.draw(st.lists(st.tuples(*columns).map(kind), min_size=1, max_size=5))
    with np.errstate(over="ignore"):
        expected = np.array(rows).astype(np.float32)
        plain = number_rows(rows, len(columns))
    assert plain is not None
    assert plain.dtype == np.float32
    np.testing.assert_array_equal(plain, expected)


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=5))
def test_plain_rows_of_booleans_are_what_numpy_makes_of_them(rows):
    plain = bool_rows(rows, 3)
    assert plain is not None
    assert plain.dtype == np.bool_
    np.testing.assert_array_equal(plain, np.array(rows))


class FloatLike(float):
    pass


OTHERS = [
    [[1.0, 2.0], [1, 2.0]],
    [[1.0, 2.0], (1.0, 2.0)],
    [[1.0, 2.0], [1.0]],
    [[1.0], [1.0, 2.0, 3.0]],
    [[1.0, 2.0], [1.0, None]],
    [[1.0, 2.0], [1.0, "2"]],
    [[1.0, 2.0], [1.0, True]],
    [[1.0, 2.0], [1.0, 2**31]],
    [[1, 2], [1, 2**31]],
    [[1, 2], [1, -(2**31) - 1]],
    [[1.0, 2.0], [1.0, np.float64(2)]],
    [[1.0, 2.0], [1.0, FloatLike(2)]],
    [[1.0, 2.0], np.array([1.0, 2.0])],
    [[1.0, 2.0], {1.0: 2, 2.0: 3}],
    [[1.0, 2.0], b"gg"],
    [[1.0, 2.0], None],
    [[True, False], [True, False]],
    [np.array([1.0, 2.0])],
    [],
]


@pytest.mark.parametrize("rows", OTHERS, ids=range(len(OTHERS)))
def test_other_rows_are_no_plain_numbers(rows):
    assert number_rows(rows, 2) is None


@pytest.mark.parametrize(
    "other",
    [[True, 1], [True, 1.0], [True], [True, None], [True, np.bool_(True)], (True, True), "TT", []],
    ids=repr,
)
def test_other_rows_are_no_plain_booleans(other):
    assert bool_rows([[True, False], other], 2) is None
    assert bool_rows([other, [True, False]], 2) is None


def test_without_the_known_format_everything_still_works(monkeypatch):
    expected = play(GAMES["Farm"], 20)
    monkeypatch.setattr(plain_rows, "_KNOWN", False)
    monkeypatch.setattr(marshal, "dumps", unusual)
    assert number_rows([[1.0]], 1) is None
    assert bool_rows([[True]], 1) is None
    for left, right in zip(expected, play(GAMES["Farm"], 20), strict=True):
        assert_same_obs(left, right)


def test_the_format_of_this_python_is_known():
    assert plain_rows._KNOWN
    assert random_obs.TYPES == ["Mine", "Robot", "Rock", "Cannon"]
