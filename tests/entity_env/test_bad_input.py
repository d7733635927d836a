"""Every mistake has its own error, and random damage leads to nothing but our errors."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.broken import (
    ACTION_SPACE,
    ALL,
    OBS_SPACE,
    Sulky,
    Table,
    act,
    ragged,
    read,
    valid_actions,
    valid_parts,
)
from support.tiny_envs import Chain, assert_same_obs

from entity_env import (
    CategoricalActionMask,
    CategoricalActionSpace,
    GlobalCategoricalActionMask,
    ListEnv,
    Observation,
    ObsSpace,
    RaggedBufferBool,
    RaggedBufferF32,
    RaggedBufferI64,
    SelectEntityActionMask,
    batch_obs,
    errors,
    extract_features,
    make,
    register,
)
from entity_env.batching.frame import Frame
from entity_env.batching.row_reader import RowReader
from entity_env.errors import EntityEnvError


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_each_mistake_has_its_own_clear_error(case):
    with pytest.raises(EntityEnvError) as caught:
        case.run()
    error = caught.value
    assert type(error) is case.error
    for words in case.words:
        assert words in str(error)
    # It says what is wrong, and what was found or would be valid instead.
    assert error.what
    assert any(
        part is not None for part in (error.expected, error.received, error.hint, error.options)
    )
    assert len(str(error)) < 5000


def test_what_the_mistakes_are_made_from_is_valid():
    frame = read(valid_parts())
    assert frame.actions["Move"].actors.tolist() == [2, 3]
    assert frame.actions["Fire"].actees.tolist() == [0, 1, 2]
    assert len(act(valid_actions())) == 2


def test_a_message_has_all_parts():
    error = errors.BatchError("here", expected=1, received=2, options=["a", "b"], hint="look")
    assert isinstance(error, errors.EntityEnvError)
    assert isinstance(error, ValueError)
    assert str(error).splitlines() == [
        "here",
        "  expected: 1",
        "  received: 2",
        "  valid:    'a', 'b'",
        "  hint:     look",
    ]


def test_values_that_are_valid_are_shown_once_and_as_they_are():
    error = errors.MaskError("no", options=[1, "1", ("A", 0), "x" * 300])
    assert error.options == f"1, '1', ('A', 0), '{'x' * 196}..."
    assert errors.MaskError("no", options=iter(())).options == "(none)"
    assert errors.nearest("12", [11, 12]) == "did you mean 12?"
    assert errors.nearest("lfet", ["left", "right"]) == "did you mean 'left'?"


def test_an_error_in_a_batch_names_the_observation():
    bad = valid_parts()
    bad["reward"] = None
    observations = [Observation(**valid_parts()), Observation(**bad)]
    with pytest.raises(errors.ObservationError, match=r"^observation 1: the reward"):
        batch_obs(observations, OBS_SPACE, ACTION_SPACE)


# Random damage.


class Liar:
    """Says that it is an array of a shape that it does not have."""

    shape = (2, 2)
    dtype = np.dtype(np.float32)
    ndim = 2

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return "lie"

    def __array__(self, *args, **kwargs):
        return np.array([["lie"]])


class UnprintableError(Exception):
    def __str__(self):
        raise RuntimeError("not even a message")


class Furious(Sulky):
    """Raises an error that cannot be printed."""

    def __array__(self, *args, **kwargs):
        raise UnprintableError

    def __len__(self):
        raise UnprintableError

    def __hash__(self):
        raise UnprintableError


nested = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | st.complex_numbers()
    | st.text(max_size=5)
    | st.binary(max_size=5)
    | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=2)
        | st.frozensets(st.integers(), max_size=2)
    ),
    max_leaves=6,
)
dtypes = st.sampled_from(
    ["f2", "f4", "f8", "i1", "i8", "u8", "?", "c8", "U3", "S2", "O", "M8[s]", "m8[s]", "V4"]
)
arrays = st.builds(
    lambda dtype, shape: np.zeros(shape, dtype),
    dtypes,
    st.lists(st.integers(0, 3), max_size=4).map(tuple),
) | st.builds(
    lambda values, shape: np.resize(np.array(values, np.float64), shape),
    st.lists(st.floats(), min_size=1, max_size=4),
    st.lists(st.integers(0, 3), max_size=3).map(tuple),
)
scalars = st.sampled_from(
    [
        np.float32("nan"),
        np.float64("inf"),
        np.int8(-1),
        np.uint64(2**64 - 1),
        np.complex64(1 + 2j),
        np.bool_(True),
        np.str_("x"),
        np.datetime64("NaT", "s"),
        np.timedelta64("NaT", "s"),
        np.timedelta64(3, "s"),
        np.array(1.0),
        10**400,
        -(2**63) - 1,
    ]
)


class Made:
    """An object made anew for each example; it stands for objects that cannot be printed."""

    def __init__(self, name, make):
        self.name, self.make = name, make

    def __repr__(self):
        return self.name


SPECIALS = [
    Made("Sulky()", Sulky),
    Made("Furious()", Furious),
    Made("Liar()", Liar),
    Made("object()", object),
    Made("iterator", lambda: iter([1])),
    Made("generator", lambda: (x for x in [1])),
    Made("keys", lambda: {1: 2}.keys()),
    Made("int", lambda: int),
    Made("...", lambda: ...),
    Made("slice", lambda: slice(2)),
    Made("range", lambda: range(3)),
    Made("memoryview", lambda: memoryview(b"ab")),
    Made("Observation()", Observation),
    Made("[Sulky()]", lambda: [Sulky()]),
    Made("[[Furious()]]", lambda: [[Furious()]]),
    Made("{'Mine': Sulky()}", lambda: {"Mine": Sulky()}),
]
specials = st.sampled_from(SPECIALS)


def fresh(value):
    return value.make() if isinstance(value, Made) else value


names = st.sampled_from(["Mine", "Robot", "Cannon", "Move", "Fire", "Mode", "m0", "m1", 7, None])
listed = st.lists(names, max_size=3)
masks = st.builds(
    lambda kind, left, right: (
        kind(**left, **right)
        if kind is SelectEntityActionMask
        else (kind(**left) if kind is CategoricalActionMask else kind())
    ),
    st.sampled_from([SelectEntityActionMask, CategoricalActionMask, GlobalCategoricalActionMask]),
    st.fixed_dictionaries({}, optional={"actor_ids": listed | nested, "mask": nested | arrays})
    | st.fixed_dictionaries({}, optional={"actor_types": listed | nested}),
    st.fixed_dictionaries({}, optional={"actee_types": listed})
    | st.fixed_dictionaries({}, optional={"actee_ids": listed | nested}),
)
junk = st.one_of(nested, arrays, scalars, specials, names, listed, masks)


def places(value, path=()):
    """The paths to everything inside nested dicts, lists and action masks."""
    found = [path] if path else []
    if isinstance(value, dict):
        for key in value:
            found += places(value[key], (*path, key))
    elif isinstance(value, list):
        for index in range(len(value)):
            found += places(value[index], (*path, index))
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            found += places(getattr(value, name), (*path, name))
    return found


PLACES = places(valid_parts())


def put(value, path, new):
    """Replace what lies at ``path``; dataclasses are frozen, so past their checks."""
    new = fresh(new)
    for key in path[:-1]:
        value = value[key] if isinstance(value, dict | list) else getattr(value, key)
    if isinstance(value, dict | list):
        value[path[-1]] = new
    else:
        object.__setattr__(value, path[-1], new)


def check(parts):
    """Read an observation: the frame is sound, or the error is ours and can be printed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            frame = read(parts)
        except EntityEnvError as raised:
            error = raised
        else:
            assert_sound(frame)
            return
    assert str(error)


def assert_sound(frame):
    """Check the properties of every frame that has been checked."""
    assert isinstance(frame, Frame)
    entities = sum(len(rows) for rows in frame.features.values())
    assert len(frame.ids) == entities
    for name, entity in OBS_SPACE.entities.items():
        rows = frame.features[name]
        assert rows.shape == (len(rows), len(entity.names))
        assert rows.dtype == np.float32
        assert np.isfinite(rows).all()
    assert frame.global_features.shape == (2,)
    assert np.isfinite(frame.global_features).all()
    assert isinstance(frame.reward, float)
    assert np.isfinite(np.float32(frame.reward))
    assert frame.done in (True, False)
    assert frame.done or not frame.truncated
    for name, who in frame.actions.items():
        top = entities + (name == "Mode")
        assert ((who.actors >= 0) & (who.actors < top)).all()
        assert len(set(who.actors.tolist())) == len(who.actors) > 0
        if name == "Fire":
            assert ((who.actees >= 0) & (who.actees < entities)).all()
            width = len(who.actees)
        else:
            width = len(ACTION_SPACE[name])
        if who.mask is not None:
            assert who.mask.shape == (len(who.actors), width)
            assert who.mask.dtype == np.bool_
            assert who.mask.any(axis=1).all()
    for value in frame.metrics.values():
        assert isinstance(value, float)
        assert np.isfinite(value)


def damaged(damage):
    """The arguments of an observation; made anew, since some damage can be read once."""
    parts = valid_parts()
    for path, new in damage:
        try:
            put(parts, path, new)
        except (KeyError, IndexError, AttributeError, TypeError):
            assume(False)  # an earlier damage has taken the place away
    return parts


def damaged_batch(damage, bad_row):
    """Three observations, one of them damaged."""
    try:
        bad = Observation(**damaged(damage))
    except EntityEnvError:
        assume(False)
    rows = [Observation(**valid_parts()) for _ in range(3)]
    rows[bad_row] = bad
    return rows


def outcome_of(read):
    """Return the result of ``read``, or the text and class of its error."""
    try:
        return read()
    except EntityEnvError as error:
        return type(error), str(error)


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.sampled_from(PLACES), junk), min_size=1, max_size=3), st.integers(0, 2)
)
@settings(max_examples=600, deadline=None, derandomize=True)
def test_random_damage_raises_our_errors_or_gives_a_sound_frame_alone_and_among_rows(
    damage, bad_row
):
    check(damaged(damage))
    reader = RowReader(OBS_SPACE, ACTION_SPACE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fast = outcome_of(lambda: reader.read(damaged_batch(damage, bad_row), str))
        slow = outcome_of(lambda: reader.read_each(damaged_batch(damage, bad_row), str))
    if isinstance(slow, tuple):
        # Objects without a text of their own are written with their place in memory.
        assert isinstance(fast, tuple)
        assert fast[0] is slow[0]
        assert re.sub("0x[0-9a-f]+", "", fast[1]) == re.sub("0x[0-9a-f]+", "", slow[1])
    else:
        assert_same_obs(fast.obs, slow.obs)
        assert fast.outcome.results() == slow.outcome.results()


# Actions.


def views():
    """Buffers that are views, lack frames, or have other widths."""
    whole = ragged([0, 1, 2, 2], [2, 2])
    many = ragged(np.arange(12) % 3, [2, 4, 6])
    return [
        lambda: whole[np.array([1, 0])],
        lambda: whole[np.array([], np.int64)],
        lambda: many[np.array([0, 0])],
        lambda: many[1:],
        lambda: many[:, 0:2],
        lambda: many[:, 0:2, :],
        lambda: many[:, :, 0],
        lambda: many[0],
        lambda: many[0, 0],
        lambda: RaggedBufferI64(1),
        lambda: RaggedBufferI64(0),
        lambda: RaggedBufferI64.from_array(np.zeros((2, 2, 1), np.int64)),
        lambda: RaggedBufferI64.from_array(np.zeros((2, 2, 3), np.int64)),
        lambda: RaggedBufferI64.from_array(np.zeros((2, 0, 1), np.int64)),
        lambda: RaggedBufferF32.from_array(np.zeros((2, 2, 1), np.float32)),
        lambda: RaggedBufferBool.from_array(np.zeros((2, 2, 1), np.bool_)),
        lambda: RaggedBufferI64,
    ]


def buffer_of(make):
    """Return the result of ``make``, or None if it raises an error."""
    try:
        return make()
    except KeyboardInterrupt:
        raise
    except BaseException:  # a panic
        return None


lengths_of_rows = st.lists(st.integers(0, 3), max_size=4)
edge = st.integers(-4, 8) | st.sampled_from([2**63 - 1, -(2**63), 2**32, 2**31])
buffers = st.builds(
    lambda lengths, width, fill: ragged(
        np.resize(np.array(fill, np.int64), (sum(lengths), width)), lengths
    ),
    lengths_of_rows,
    st.integers(1, 3),
    st.lists(edge, min_size=1, max_size=6),
) | st.builds(
    lambda fill: ragged(np.resize(np.array(fill, np.int64), 4), [2, 2]),
    st.lists(edge, min_size=1, max_size=4),
)
odd_actions = st.one_of(buffers, st.sampled_from(views()).map(buffer_of), junk)


@given(
    st.dictionaries(st.sampled_from(["Move", "Fire", "Mode"]), odd_actions, min_size=1),
    st.lists(st.sampled_from(["Move", "Fire", "Mode", "Mvoe", 3, None]), max_size=2),
)
@settings(max_examples=400, deadline=None, derandomize=True)
def test_random_damage_to_actions_raises_our_errors(damage, others):
    """In particular no panic of the ragged buffers, which is a ``BaseException``."""
    actions = {**valid_actions(), **{name: fresh(value) for name, value in damage.items()}}
    for name in others:
        if name in actions:
            del actions[name]
        else:
            actions[name] = ragged([], [])
    try:
        obs = act(actions)
    except EntityEnvError as raised:
        error = raised
    else:
        assert len(obs) == 2
        return
    assert str(error)


@given(st.lists(edge, min_size=4, max_size=4))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_choices_pass_exactly_if_the_mask_allows_them(choices):
    # In both rows robot 0 has choices 0 and 2, robot 1 has all three.
    allowed = [[0, 2], [0, 1, 2]] * 2
    good = all(choice in options for choice, options in zip(choices, allowed, strict=True))
    actions = {**valid_actions(), "Move": ragged(choices, [2, 2])}
    try:
        act(actions)
    except errors.ActionError:
        assert not good
    else:
        assert good


def test_actions_that_nobody_can_take_may_be_left_out():
    class Idle(Table):
        def _observe(self):
            parts = valid_parts()
            parts["actions"] = {}
            return Observation(**parts)

    with ListEnv(Idle, 2) as env:
        env.reset()
        assert env.act({}).reward.tolist() == [0.5, 0.5]


def misbehaving(base, *methods):
    """A class whose ``methods`` raise; as good as ``base`` otherwise."""

    def fail(self, *args):
        raise UnprintableError

    own = dict.fromkeys(methods, fail)
    return type("Misbehaving", (base,), {"__hash__": base.__hash__, **own})


MISBEHAVING = [
    misbehaving(base, *methods)
    for base in (str, object, int)
    for methods in (["__repr__"], ["__eq__"], ["__repr__", "__str__"], ["__bool__"], ["__iter__"])
]


@pytest.mark.parametrize("kind", MISBEHAVING)
def test_names_and_ids_that_misbehave_end_in_errors_of_ours(kind):
    name = kind("Go") if issubclass(kind, str) else kind()
    good = Chain()
    rows = ListEnv(Chain, 1)
    rows.reset()
    for call in (
        lambda: rows.act({name: ragged([0], [1]), "Gone": ragged([0], [1])}),
        lambda: Observation(features={"Walker": name}, ids=3).id_to_index(good.obs_space()),
        lambda: batch_obs([Observation(features={name: [[1.0]]})], good.obs_space(), {}),
        lambda: batch_obs(name, good.obs_space(), good.action_space()),
        lambda: ObsSpace(entities={"A": name}),
        lambda: CategoricalActionSpace([name, name]),
        lambda: extract_features({name: []}, good.obs_space()),
        lambda: make(name),
        lambda: register(name, 3),
    ):
        with pytest.raises(EntityEnvError) as caught:
            call()
        assert str(caught.value)
