"""Messages between processes: shared memory, observations and actions as bytes."""

from __future__ import annotations

import os
from functools import partial
from itertools import chain

import numpy as np
import pytest
from support.mines import NEEDS_NUMBA, minesweeper
from support.tiny_envs import Farm, assert_same_obs

from entity_env import ListEnv, RaggedBufferI64
from entity_env.batching.kinds.answers import AnswerForm
from entity_env.play import random_policy
from entity_env.workers.messages import read_actions, split_actions
from entity_env.workers.obs_format import ObsFormat
from entity_env.workers.shared_block import SharedBlock

# ------------------------------------------------------------------------------------ shared memory


@pytest.fixture
def blocks():
    writer = SharedBlock.create()
    reader = SharedBlock(os.dup(writer.fileno()))
    yield writer, reader
    writer.close()
    reader.close()


def text_at(block, place, size):
    memory, start = block.read(place)
    return memory[start : start + size]


def test_each_key_has_a_place_of_its_own_that_grows(blocks):
    writer, reader = blocks
    rng = np.random.default_rng(0)
    there = {}
    for size in (3, 1000, 10, 1001, 5_000, 1, 0, 70_000, 200_000):
        for key in (7, 0, 3):
            message = rng.bytes(size + key)
            there[key] = (writer.write(key, message), message)
            for place, expected in there.values():
                assert text_at(reader, place, len(expected)) == expected


def test_a_message_that_fits_takes_the_place_of_the_last_one(blocks):
    writer, _ = blocks
    first = writer.write(0, b"x" * 1000)
    assert writer.write(0, b"y" * 1000) == first
    size = os.fstat(writer.fileno()).st_size
    for length in range(1000):
        writer.write(0, b"z" * length)
    assert os.fstat(writer.fileno()).st_size == size


def test_memory_stays_proportional_to_what_is_in_use(blocks):
    writer, _ = blocks
    for length in range(1, 100_000, 97):
        writer.write(0, bytes(length))
        writer.write(1, bytes(length))
    assert os.fstat(writer.fileno()).st_size < 10 * 200_000


def test_arrays_of_the_old_memory_stay_valid_when_it_grows(blocks):
    writer, reader = blocks
    memory, start = reader.read(writer.write(0, b"\1" * 100))
    array = np.frombuffer(memory, np.uint8, 100, start)
    new = reader.read(writer.write(1, b"\2" * 100_000))
    assert array.tolist() == [1] * 100
    assert memory[start] == 1
    assert new[0] is not memory
    assert new[0][new[1]] == 2


def test_notes_are_seen_by_the_other_side_after_growth_too(blocks):
    writer, reader = blocks
    assert reader.noted() == (0, 0)
    writer.note(5, 2**40)
    assert reader.noted() == (5, 2**40)
    writer.write(0, bytes(100_000))
    writer.note(6, 1)
    assert reader.noted() == (6, 1)
    assert SharedBlock.read(reader, writer.write(1, b"abc"))[0][:8] == (6).to_bytes(8, "little")


# ------------------------------------------------------------------------------------- observations


def some_observations(create_env, rows, first_row=0, steps=25):
    policy = random_policy(0)
    with ListEnv(create_env, rows, seed=3, first_row=first_row) as env:
        seen = [env.reset()]
        for _ in range(steps):
            seen.append(env.act(policy(seen[-1])))
        return ObsFormat(env.obs_space(), env.action_space()), seen


@pytest.mark.parametrize(
    "create_env", [Farm, pytest.param(partial(minesweeper, 4, 4, 3, 2, 2, 1, 5), marks=NEEDS_NUMBA)]
)
def test_an_observation_that_is_packed_and_joined_is_the_same(create_env):
    form, seen = some_observations(create_env, 5)
    for obs in seen:
        message = form.pack(obs)
        assert_same_obs(form.join([(message, 0)]), obs)
        assert_same_obs(form.join([(b"1234567" + message + b"more", 7)]), obs)


def test_joined_observations_do_not_change_with_the_memory():
    form, seen = some_observations(Farm, 5)
    last = next(obs for obs in seen if obs.final is not None)
    memory = bytearray(form.pack(last))
    joined = form.join([(memory, 0)])
    memory[:] = bytes(len(memory))
    assert_same_obs(joined, last)


# ------------------------------------------------------------------------------------------ actions


def random_actions(rng, rows):
    """Actions of three names with 0 to 3 actors in each row, and the same as nested lists."""
    nested = {
        name: [rng.integers(0, 100, rng.integers(0, 4)).tolist() for _ in range(rows)]
        for name in ("one", "none", "two")
    }
    nested["none"] = [[] for _ in range(rows)]
    return {name: buffer_of(own) for name, own in nested.items()}, nested


def buffer_of(frames):
    flat = np.array(list(chain(*frames)), np.int64).reshape(-1, 1)
    return RaggedBufferI64.from_flattened(flat, np.array([len(f) for f in frames], np.int64))


def test_actions_that_are_split_are_those_of_the_rows():
    rng = np.random.default_rng(0)
    for counts in ([1], [2, 3], [1, 1, 4]):
        actions, nested = random_actions(rng, sum(counts))
        first = 0
        for count, message in zip(counts, split_actions(actions, counts), strict=True):
            part = read_actions(message, dict.fromkeys(actions, AnswerForm()), count)
            assert list(part) == list(actions)
            for name, own in nested.items():
                assert part[name] == buffer_of(own[first : first + count])
            first += count
